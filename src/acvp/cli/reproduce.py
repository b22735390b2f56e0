"""`acvp reproduce`: runs the paper's experiments, and judges its claims."""

from __future__ import annotations

from acvp.cli.main import Verb
from acvp.console import counted, err, out, print_table
from acvp.exits import EXIT_OK, EXIT_PROBLEMS
from acvp.reproduce.config import ReproduceConfig


def run(config: ReproduceConfig) -> int:
    """Print the plan, then run what is left of it."""
    from acvp.reproduce.plan import make_plan
    from acvp.reproduce.run import Runner, command_lines, opened, plan_table, refuse_stale, summary

    plan = make_plan(config)
    if config.print_commands:
        for line in command_lines(plan, config.out):
            out.print(line)
        return EXIT_OK
    print_table(plan_table(plan, config.out))
    if config.dry_run:
        return EXIT_OK
    with opened(plan, config.out):
        refuse_stale(plan, config.out)
        counts = summary(Runner(plan, config.out, config.jobs, err.print).run())
    out.print(", ".join(f"{counted(count, 'step')} {state}" for state, count in counts.items() if count))
    out.print(f"written to {config.out}: claims.md has the conclusion of every claim")
    return EXIT_PROBLEMS if counts["failed"] else EXIT_OK


VERBS = {
    "reproduce": Verb(
        options=ReproduceConfig,
        run=run,
        example="acvp reproduce --games freeway --scale cpu --jobs 2 --out reproduction",
    )
}
