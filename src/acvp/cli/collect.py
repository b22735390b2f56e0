"""`acvp collect`: records a game into a dataset."""

from __future__ import annotations

from acvp.cli.main import Verb
from acvp.console import out, progress_bar, progress_reporter
from acvp.data.collect import CollectConfig, collect
from acvp.data.policies import AGENT, PLAN, load_policy
from acvp.exits import EXIT_OK


def run(config: CollectConfig) -> int:
    """Record until the dataset has as many frames as asked for."""
    load = load_policy
    if any(policy.startswith((AGENT, PLAN)) for policy in config.policy):
        from acvp.agents.policies import load_any_policy as load
    with progress_bar("{task.fields[rate]:>7,.0f} frames/s  {task.fields[size]:.1f} MB") as bar:
        task = bar.add_task("recording", total=None if config.episodes else config.frames, rate=0.0, size=0.0)

        def show(frames: int, size: int) -> None:
            total = frames if config.episodes else config.frames
            bar.update(task, completed=min(frames, total), rate=bar.tasks[task].speed or 0.0, size=size / 1e6)
            write(min(frames, total), total)

        write = progress_reporter("recording", "frames", lambda done, total: None)
        store = collect(config, show, load)
    out.print(repr(store))
    out.print(f"look at it: acvp data info {config.out}")
    return EXIT_OK


VERBS = {
    "collect": Verb(
        options=CollectConfig, run=run, example="acvp collect --env-id freeway --frames 100000 --out stores/freeway"
    )
}
