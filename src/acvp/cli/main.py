"""acvp <verb>: parses, calls, prints; exits.py decides how it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.box import SIMPLE
from rich.table import Column, Table
from tyro.conf import subcommand

from acvp import __version__
from acvp import exits as ends
from acvp.agents.config import (
    AgentCompareConfig,
    AgentConfig,
    AgentEvaluateConfig,
    AgentImportConfig,
    AgentTrainConfig,
    require_stable_baselines3,
)
from acvp.analysis.config import AnalyzeConfig
from acvp.console import counting, err, out, progress_bar, stages, told
from acvp.control.config import ControlConfig, ExploreConfig
from acvp.data.collect import CollectConfig, collect
from acvp.data.config import DataConfig, ExportConfig, ImportConfig, InfoConfig, VerifyConfig
from acvp.data.policies import load_policy
from acvp.data.store import EpisodeStore
from acvp.durable import new_folder
from acvp.envs import load_module, make_game
from acvp.errors import UserError
from acvp.evaluation.config import CounterfactualConfig, EvaluateConfig
from acvp.exits import EXIT_CODES, EXIT_OK, EXIT_PROBLEMS
from acvp.play.config import PlayConfig, PredictorExportConfig
from acvp.report.sources import ReportConfig
from acvp.training.config import TrainConfig

Verb = (
    Annotated[CollectConfig, subcommand("collect")]
    | Annotated[DataConfig, subcommand("data")]
    | Annotated[AgentConfig, subcommand("agent")]
    | Annotated[TrainConfig, subcommand("train")]
    | Annotated[EvaluateConfig, subcommand("evaluate")]
    | Annotated[CounterfactualConfig, subcommand("counterfactual")]
    | Annotated[ControlConfig, subcommand("control")]
    | Annotated[ExploreConfig, subcommand("explore")]
    | Annotated[AnalyzeConfig, subcommand("analyze")]
    | Annotated[PlayConfig, subcommand("play")]
    | Annotated[PredictorExportConfig, subcommand("export")]
    | Annotated[ReportConfig, subcommand("report")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line in this process and return its exit code."""
    return ends.run(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    ends.handler.loading = False
    if list(sys.argv[1:] if arguments is None else arguments) == ["--version"]:
        out.print(f"acvp {__version__}")
        return EXIT_OK
    verb: Any = tyro.cli(
        Verb,
        prog="acvp",
        description=f"Record a pixel game, learn to predict its frames, look far ahead.\n\n{EXIT_CODES}",
        args=arguments,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
    )
    verb = verb.verb if isinstance(verb, AgentConfig | DataConfig) else verb
    _import_trusted(verb)
    return RUN[type(verb)](verb)


def _import_trusted(verb: Any) -> None:
    """Import the modules that the user named, also before an id; only then are modules of the current folder found."""
    prefix = (getattr(verb, "env_id", None) or "").rpartition(":")[0]
    if isinstance(verb, ImportConfig) and verb.actions is not None:
        prefix = ""  # the game need not be installed
    modules, policy = [getattr(verb, "import_module", None), prefix], getattr(verb, "policy", "")
    if any(modules) or (":" in policy and not policy.startswith("agent:")):
        sys.path.append(str(Path.cwd()))
    for module in filter(None, modules):
        load_module(module)


def run_collect(config: CollectConfig) -> int:
    """acvp collect."""
    load = load_policy
    if config.policy.startswith("agent:"):
        from acvp.agents.agent import load_any_policy as load
    with progress_bar("{task.fields[rate]:>7,.0f} frames/s  {task.fields[size]:.1f} MB") as bar:
        task = bar.add_task("recording", total=config.frames, rate=0.0, size=0.0)

        def show(frames: int, size: int) -> None:
            bar.update(task, completed=min(frames, config.frames), rate=bar.tasks[task].speed or 0.0, size=size / 1e6)
            write(min(frames, config.frames), config.frames)

        write = told("recording", "frames", lambda done, total: None)
        store = collect(config, show, load)
    out.print(repr(store))
    out.print(f"look at it: acvp data info {config.out}")
    return EXIT_OK


def run_info(config: InfoConfig) -> int:
    """acvp data info."""
    from acvp.data.verify import contact_sheet, describe

    store = EpisodeStore.open(config.store)
    table = Table(Column(style="bold"), show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in describe(store):
        table.add_row(name, value)
    out.print(table)
    if store.frames:
        sheet = config.sheet or config.store / "contact-sheet.png"
        try:
            contact_sheet(store, sheet)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{sheet}: the contact sheet cannot be written ({error}); choose another --sheet"
            ) from error
        out.print(f"contact sheet: {sheet}")
    return EXIT_OK


def run_verify(config: VerifyConfig) -> int:
    """acvp data verify."""
    from acvp.data.verify import verify

    with counting("checking") as show:
        problems = verify(config.store, show)
    if config.replay and not problems:
        problems = _replay(EpisodeStore.open(config.store))
    for problem in problems:
        err.print(problem)
    if problems:
        return EXIT_PROBLEMS
    store = EpisodeStore.open(config.store)
    how = "every byte checked" + (", every frame replayed" if config.replay else "")
    out.print(f"{len(store):,} episodes, {store.frames:,} frames: {how}, nothing wrong")
    return EXIT_OK


def run_import(config: ImportConfig) -> int:
    """acvp data import."""
    from acvp.data.formats import FORMATS, import_store

    actions: int | tuple[str, ...] | None = config.actions
    env_id = config.env_id
    if env_id is not None and actions is None:
        try:
            with make_game(env_id) as game:
                env_id, actions = game.env_id, game.action_meanings
        except UserError as error:
            raise UserError(f"{error}; or give --actions N, for a game that is not installed") from error
    with counting("importing", "frames") as show:
        stores = import_store(config.format, config.source, config.out, env_id=env_id, actions=actions, progress=show)
    for store in stores:
        out.print(repr(store))
    if FORMATS[config.format].unknown:
        out.print(f"note: {FORMATS[config.format].unknown}")
    return EXIT_OK


def run_export(config: ExportConfig) -> int:
    """acvp data export."""
    from acvp.data.formats import FORMATS, export_store
    from acvp.data.split import split_positions

    store = EpisodeStore.open(config.store)
    train = test = None
    if config.test_fraction is not None:
        train, test = split_positions(store, test_fraction=config.test_fraction)
    with counting("exporting", "frames") as show:
        export_store(
            config.format, store, config.out, train=train, test=test, dataset_id=config.dataset_id, progress=show
        )
    out.print(f"written to {config.out}; note: {FORMATS[config.format].lost}")
    return EXIT_OK


def run_train(config: TrainConfig) -> int:
    """acvp train."""
    from acvp.training.presets import make_recipe
    from acvp.training.run import train

    store = EpisodeStore.open(config.data)
    return train(config, store, make_recipe(config, store), err).exit_code


@contextmanager
def _looking_ahead() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show the progress of work with a predictor, whose memory is kept from one step to the next."""
    from acvp.models import keep_freed_memory

    keep_freed_memory()
    with stages() as stage:
        yield stage


def run_evaluate(config: EvaluateConfig) -> int:
    """acvp evaluate."""
    import acvp
    from acvp.evaluation.run import default_out, evaluate_runs
    from acvp.evaluation.tables import horizon_tables

    with _looking_ahead() as stage:
        body = evaluate_runs(config, acvp.load, stage)
    for name, reason in body["left_out"].items():
        out.print(f"left out: {name}: {reason}")
    _print_results(horizon_tables(body), body, config.out or default_out(config.runs))
    return EXIT_OK


def run_counterfactual(config: CounterfactualConfig) -> int:
    """acvp counterfactual."""
    import acvp
    from acvp.evaluation.counterfactual import counterfactual_runs
    from acvp.evaluation.run import default_out
    from acvp.evaluation.tables import counterfactual_table

    with _looking_ahead() as stage:
        body = counterfactual_runs(config, acvp.load, stage)
    _print_results([counterfactual_table(body)], body, config.out or default_out(config.runs))
    return EXIT_OK


def run_analyze(config: AnalyzeConfig) -> int:
    """acvp analyze."""
    import acvp
    from acvp.analysis.figures import analysis_tables
    from acvp.analysis.run import analyze_run

    with _looking_ahead() as stage:
        body = analyze_run(config, acvp.load, stage)
    for name, reason in body["left_out"].items():
        out.print(f"left out: {name}: {reason}")
    _print_results(analysis_tables(body), body, config.out or config.run)
    return EXIT_OK


def run_agent_train(config: AgentTrainConfig) -> int:
    """acvp agent train."""
    require_stable_baselines3()
    import acvp
    from acvp.agents.run import train_agent
    from acvp.control.learning import imagined_games, informed_strategy, weights_asked

    load = cache(acvp.load)
    make_exploration, make_games = informed_strategy(config, load), imagined_games(config, load)
    return train_agent(config, err, make_exploration, make_games, weights_asked(config, load)).exit_code


def run_agent_evaluate(config: AgentEvaluateConfig) -> int:
    """acvp agent evaluate."""
    from acvp.agents.evaluate import evaluate_agent, score_lines

    with counting("playing", "plays") as show:
        body = evaluate_agent(config, show)
    for line in score_lines(body):
        out.print(line)
    if config.out is not None:
        out.print(f"written to {config.out}")
    return EXIT_OK


def run_agent_compare(config: AgentCompareConfig) -> int:
    """acvp agent compare."""
    from acvp.control.compare import compare_agents, comparison_lines

    with stages() as stage:
        body = compare_agents(config, stage)
    for line in comparison_lines(body):
        out.print(line)
    out.print(f"written to {config.out}")
    return EXIT_OK


def run_agent_import(config: AgentImportConfig) -> int:
    """acvp agent import."""
    require_stable_baselines3()
    from acvp.agents.dqn import import_agent

    with new_folder(config.out) as folder:
        import_agent(config.source, config.env_id, trust_pickle=config.trust_pickle).save(folder)
    out.print(f"written to {config.out}; look at it: acvp agent evaluate --agent {config.out}")
    return EXIT_OK


def run_control(config: ControlConfig) -> int:
    """acvp control."""
    import acvp
    from acvp.agents.agent import load_agent
    from acvp.control.run import control_out, control_runs, control_table

    with _looking_ahead() as stage:
        body = control_runs(config, acvp.load, load_agent, stage)
    _print_results([control_table(body)], body, control_out(config))
    return EXIT_OK


def run_explore(config: ExploreConfig) -> int:
    """acvp explore."""
    import acvp
    from acvp.control.explore import explore_sources, explore_table

    with _looking_ahead() as stage:
        body = explore_sources(config, acvp.load, stage)
    _print_results([explore_table(body)], body, config.out)
    return EXIT_OK


def run_play(config: PlayConfig) -> int:
    """acvp play."""
    from acvp.play.server import play

    play(config, lambda text: out.print(text))
    return EXIT_OK


def run_export_predictor(config: PredictorExportConfig) -> int:
    """acvp export."""
    from acvp.play.static_page import export

    for text in export(config):
        out.print(text)
    return EXIT_OK


def run_report(config: ReportConfig) -> int:
    """acvp report."""
    from acvp.report.page import write_report

    file = write_report(config)
    out.print(f"{file} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser, it needs no network")
    return EXIT_OK


RUN: dict[type[Any], Callable[[Any], int]] = {
    CollectConfig: run_collect,
    InfoConfig: run_info,
    VerifyConfig: run_verify,
    TrainConfig: run_train,
    EvaluateConfig: run_evaluate,
    CounterfactualConfig: run_counterfactual,
    AgentTrainConfig: run_agent_train,
    AgentEvaluateConfig: run_agent_evaluate,
    AgentCompareConfig: run_agent_compare,
    AgentImportConfig: run_agent_import,
    ControlConfig: run_control,
    ExploreConfig: run_explore,
    AnalyzeConfig: run_analyze,
    PlayConfig: run_play,
    PredictorExportConfig: run_export_predictor,
    ReportConfig: run_report,
    ImportConfig: run_import,
    ExportConfig: run_export,
}


def _replay(store: EpisodeStore) -> list[str]:
    from acvp.data.replay import first_difference, replay_game

    problems = []
    with replay_game(store) as game, counting("replaying") as show:
        for done, episode in enumerate(store, 1):
            difference = first_difference(episode, game)
            problems += [difference] if difference else []
            show(done, len(store))
    return problems


def _print_results(tables: Sequence[Any], body: dict[str, Any], folder: Path) -> None:
    """Tables, what should be known about them, and where the files are."""
    for each in tables:
        heads = [Column(head, overflow="fold") for head in each.heads]
        table = Table(*heads, title=each.title, title_justify="left", title_style="bold", box=SIMPLE)
        for row in each.rows:
            table.add_row(*row)
        out.print(table)
    if "note" in body:
        out.print(f"note: {body['note']}")
    out.print(f"written to {folder}")


if __name__ == "__main__":
    sys.exit(ends.run_process(main))
