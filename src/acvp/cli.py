"""acvp <verb>: parses, calls, prints; a user's mistake is one line and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tyro.conf import Positional, arg, subcommand

from acvp.analysis.config import AnalyzeConfig
from acvp.control.config import ControlConfig, ExploreConfig
from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.envs import load_module, make_game
from acvp.errors import UserError
from acvp.evaluation.config import CounterfactualConfig, EvaluateConfig
from acvp.report.config import ReportConfig
from acvp.training.config import TrainConfig

EXIT_OK, EXIT_PROBLEMS, EXIT_USER_ERROR, EXIT_INTERRUPTED = 0, 1, 2, 130

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class InfoConfig:
    """Show what is in a store: a table, and a contact sheet of its frames."""

    store: Positional[Path]
    """Folder of the store."""
    sheet: Path | None = None
    """Where to write the contact sheet; None: contact-sheet.png in the store's folder."""


@dataclass(frozen=True)
class VerifyConfig:
    """Check every byte of a store; lists all damage and exits with 1 if there is any."""

    store: Positional[Path]
    """Folder of the store."""
    replay: bool = False
    """Also play all stored actions again and compare every frame (about the time of the recording)."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""


FormatName = Literal["authors", "minari", "npz", "video"]


@dataclass(frozen=True)
class ImportConfig:
    """Bring episodes from elsewhere into a store; a source with train and test folders gives two stores."""

    source: Positional[Path]
    """File, folder, or id of a Minari dataset."""
    format: FormatName
    """authors: PNG folders with act.log; minari: a dataset's folder or id; npz: an archive per episode; video: a video
    file with a CSV of actions per episode."""
    out: Path
    """Folder of the new store."""
    env_id: str | None = None
    """Game the frames are of, where it is installed: gives the names of the actions; None: the source's name."""
    actions: int | None = None
    """Number of actions; None: the game's, or one more than the highest action there is."""


@dataclass(frozen=True)
class ExportConfig:
    """Write a store's episodes in another format."""

    store: Positional[Path]
    """Folder of the store."""
    format: FormatName
    """See acvp data import."""
    out: Path
    """New folder."""
    test_fraction: float | None = None
    """authors: share of the frames that goes to test/; None: all to train/."""
    dataset_id: str | None = None
    """minari: id of the dataset, such as acvp/freeway-v0; None: made from the game's name."""


DataVerb = (
    Annotated[InfoConfig, subcommand("info")]
    | Annotated[VerifyConfig, subcommand("verify")]
    | Annotated[ImportConfig, subcommand("import")]
    | Annotated[ExportConfig, subcommand("export")]
)


@dataclass(frozen=True)
class DataConfig:
    """Look after stores: info, verify, import, export."""

    verb: DataVerb


Verb = (
    Annotated[CollectConfig, subcommand("collect")]
    | Annotated[DataConfig, subcommand("data")]
    | Annotated[TrainConfig, subcommand("train")]
    | Annotated[EvaluateConfig, subcommand("evaluate")]
    | Annotated[CounterfactualConfig, subcommand("counterfactual")]
    | Annotated[ControlConfig, subcommand("control")]
    | Annotated[ExploreConfig, subcommand("explore")]
    | Annotated[AnalyzeConfig, subcommand("analyze")]
    | Annotated[ReportConfig, subcommand("report")]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        verb: Any = tyro.cli(
            Verb,
            prog="acvp",
            description="Record a pixel game, learn to predict its frames, look hundreds of steps ahead.",
            args=arguments,
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes),
        )
        verb = verb.verb if isinstance(verb, DataConfig) else verb
        _import_trusted(verb)
        return RUN[type(verb)](verb)
    except UserError as error:
        err.print(f"acvp: {error}", markup=False)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        err.print("acvp: stopped; run the same command again")
        return EXIT_INTERRUPTED


def _import_trusted(verb: Any) -> None:
    """Import the module the user named; only then are modules of the current folder found."""
    module, policy = getattr(verb, "import_module", None), getattr(verb, "policy", "")
    if module or ":" in policy:
        sys.path.append(str(Path.cwd()))
    if module:
        load_module(module)


def run_collect(config: CollectConfig) -> int:
    """acvp collect."""
    with _progress("{task.fields[rate]:>7,.0f} frames/s  {task.fields[size]:.1f} MB") as bar:
        task = bar.add_task("recording", total=config.frames, rate=0.0, size=0.0)

        def show(frames: int, size: int) -> None:
            bar.update(task, completed=min(frames, config.frames), rate=bar.tasks[task].speed or 0.0, size=size / 1e6)

        store = collect(config, show)
    out.print(repr(store), markup=False)
    out.print(f"look at it: acvp data info {config.out}", markup=False)
    return EXIT_OK


def run_info(config: InfoConfig) -> int:
    """acvp data info."""
    from acvp.data.summary import contact_sheet, describe

    store = EpisodeStore.open(config.store)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in describe(store):
        table.add_row(f"[bold]{name}[/]", value)
    out.print(table)
    if store.frames:
        sheet = config.sheet or config.store / "contact-sheet.png"
        try:
            contact_sheet(store, sheet)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{sheet}: the contact sheet cannot be written ({error}); choose another --sheet"
            ) from error
        out.print(f"contact sheet: {sheet}", markup=False)
    return EXIT_OK


def run_verify(config: VerifyConfig) -> int:
    """acvp data verify."""
    from acvp.data.verify import verify

    with _counting("checking") as show:
        problems = verify(config.store, show)
    if config.replay and not problems:
        problems = _replay(EpisodeStore.open(config.store))
    for problem in problems:
        err.print(problem, markup=False)
    if problems:
        return EXIT_PROBLEMS
    store = EpisodeStore.open(config.store)
    how = "every byte checked" + (", every frame replayed" if config.replay else "")
    out.print(f"{len(store):,} episodes, {store.frames:,} frames: {how}, nothing wrong", markup=False)
    return EXIT_OK


def run_import(config: ImportConfig) -> int:
    """acvp data import."""
    from acvp.data.exchange import FORMATS, import_store

    actions: int | tuple[str, ...] | None = config.actions
    env_id = config.env_id
    if env_id is not None and actions is None:
        try:
            with make_game(env_id) as game:
                env_id, actions = game.env_id, game.action_meanings
        except UserError as error:
            raise UserError(f"{error}; or give --actions N, for a game that is not installed") from error
    with _counting("importing", "frames") as show:
        stores = import_store(config.format, config.source, config.out, env_id=env_id, actions=actions, progress=show)
    for store in stores:
        out.print(repr(store), markup=False)
    if FORMATS[config.format].unknown:
        out.print(f"note: {FORMATS[config.format].unknown}", markup=False)
    return EXIT_OK


def run_export(config: ExportConfig) -> int:
    """acvp data export."""
    from acvp.data.exchange import FORMATS, export_store
    from acvp.data.split import split_positions

    store = EpisodeStore.open(config.store)
    train = test = None
    if config.test_fraction is not None:
        train, test = split_positions(store, test_fraction=config.test_fraction)
    with _counting("exporting", "frames") as show:
        export_store(
            config.format, store, config.out, train=train, test=test, dataset_id=config.dataset_id, progress=show
        )
    out.print(f"written to {config.out}; note: {FORMATS[config.format].lost}", markup=False)
    return EXIT_OK


def run_train(config: TrainConfig) -> int:
    """acvp train."""
    from acvp.presets import make_recipe
    from acvp.training.session import train

    store = EpisodeStore.open(config.data)
    return train(config, store, make_recipe(config, store), err).exit_code


def run_evaluate(config: EvaluateConfig) -> int:
    """acvp evaluate."""
    import acvp
    from acvp.evaluation.command import default_out, evaluate_runs
    from acvp.evaluation.tables import horizon_tables

    with _stages() as stage:
        body = evaluate_runs(config, acvp.load, stage)
    for name, reason in body["left_out"].items():
        out.print(f"left out: {name}: {reason}", markup=False)
    _print_results(horizon_tables(body), body, config.out or default_out(config.runs))
    return EXIT_OK


def run_counterfactual(config: CounterfactualConfig) -> int:
    """acvp counterfactual."""
    import acvp
    from acvp.evaluation.branching import counterfactual_runs
    from acvp.evaluation.command import default_out
    from acvp.evaluation.tables import counterfactual_table

    with _stages() as stage:
        body = counterfactual_runs(config, acvp.load, stage)
    _print_results([counterfactual_table(body)], body, config.out or default_out(config.runs))
    return EXIT_OK


def run_analyze(config: AnalyzeConfig) -> int:
    """acvp analyze."""
    import acvp
    from acvp.analysis.command import analyze_run
    from acvp.analysis.tables import analysis_tables

    with _stages() as stage:
        body = analyze_run(config, acvp.load, stage)
    for name, reason in body["left_out"].items():
        out.print(f"left out: {name}: {reason}", markup=False)
    _print_results(analysis_tables(body), body, config.out or config.run)
    return EXIT_OK


def run_control(config: ControlConfig) -> int:
    """acvp control."""
    import acvp
    from acvp.agents.agent import load_agent
    from acvp.control.play_command import control_out, control_runs, control_table

    with _stages() as stage:
        body = control_runs(config, acvp.load, load_agent, stage)
    _print_results([control_table(body)], body, control_out(config))
    return EXIT_OK


def run_explore(config: ExploreConfig) -> int:
    """acvp explore."""
    import acvp
    from acvp.control.explore_command import explore_sources, explore_table

    with _stages() as stage:
        body = explore_sources(config, acvp.load, stage)
    _print_results([explore_table(body)], body, config.out)
    return EXIT_OK


def run_report(config: ReportConfig) -> int:
    """acvp report."""
    from acvp.report.page import write_report

    file = write_report(config)
    out.print(f"{file} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser, it needs no network", markup=False)
    return EXIT_OK


RUN: dict[type[Any], Callable[[Any], int]] = {
    CollectConfig: run_collect,
    InfoConfig: run_info,
    VerifyConfig: run_verify,
    TrainConfig: run_train,
    EvaluateConfig: run_evaluate,
    CounterfactualConfig: run_counterfactual,
    ControlConfig: run_control,
    ExploreConfig: run_explore,
    AnalyzeConfig: run_analyze,
    ReportConfig: run_report,
    ImportConfig: run_import,
    ExportConfig: run_export,
}


def _replay(store: EpisodeStore) -> list[str]:
    from acvp.data.replay import first_difference, replay_game

    problems = []
    with replay_game(store) as game, _counting("replaying") as show:
        for done, episode in enumerate(store, 1):
            difference = first_difference(episode, game)
            problems += [difference] if difference else []
            show(done, len(store))
    return problems


@contextmanager
def _counting(what: str, units: str = "episodes") -> Iterator[Callable[[int, int], None]]:
    """A bar that counts what is done."""
    with _progress(units) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """One bar that goes through named stages."""
    with _progress("") as bar:
        task = bar.add_task("starting", total=None)

        def begin(name: str) -> Callable[[int, int], None]:
            bar.reset(task, description=name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin


def _print_results(tables: Sequence[Any], body: dict[str, Any], folder: Path) -> None:
    """Tables, what should be known about them, and where the files are."""
    for each in tables:
        table = Table(*each.heads, title=each.title, title_justify="left", title_style="bold", box=SIMPLE)
        for row in each.rows:
            table.add_row(*row)
        out.print(table)
    if "note" in body:
        out.print(f"note: {body['note']}", markup=False)
    out.print(f"written to {folder}", markup=False)


def _progress(text: str) -> Progress:
    """A progress bar on stderr, where that is a terminal; stdout stays clean for pipes."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(text))
    return Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal)


if __name__ == "__main__":
    sys.exit(main())
