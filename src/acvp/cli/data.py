"""`acvp data`: shows, checks, imports and exports datasets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.table import Column, Table
from tyro.conf import Positional

from acvp.cli.main import Verb
from acvp.console import Module, counting, err, optional, out
from acvp.data.episode import MAX_ACTIONS
from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.errors import UserError, require, require_share
from acvp.exits import EXIT_OK, EXIT_PROBLEMS


@dataclass(frozen=True)
class InfoConfig:
    """Print a table of a dataset's contents and write a contact sheet of its frames."""

    data: Positional[Path]
    """Dataset folder."""
    sheet: Annotated[Path | None, optional("FILE", "contact-sheet.png in the dataset folder")] = None
    """Image file of the contact sheet."""


@dataclass(frozen=True)
class VerifyConfig:
    """Check every byte of a dataset, list all damage, and exit with 1 if there is any."""

    data: Positional[Path]
    """Dataset folder."""
    replay: bool = False
    """Also replay all episodes in the game and compare every frame. Takes about as long as recording."""
    import_module: Module = None
    """Python module to import first: it registers the game with Gymnasium. Its code runs: name only what you trust."""


FormatName = Literal["authors", "minari", "npz", "video"]


@dataclass(frozen=True)
class ImportConfig:
    """Import episodes of another format into a dataset. Folders train and test become two datasets."""

    source: Positional[Path]
    """File or folder to import, or the id of a Minari dataset."""
    format: FormatName
    """authors: PNG folders with act.log; minari: folder or id of a Minari dataset;
    npz: one archive per episode; video: one video file and one CSV file of actions per episode."""
    out: Path
    """New dataset folder."""
    env_id: Annotated[str | None, optional("ENV_ID", "the name in the source")] = None
    """Gymnasium id of the game. If the game is installed, it gives the names of the actions."""
    actions: Annotated[int | None, optional("INT", "that of the game, or the highest action + 1")] = None
    """Number of actions."""

    def __post_init__(self) -> None:
        require(1, MAX_ACTIONS, actions=self.actions)


@dataclass(frozen=True)
class ExportConfig:
    """Export a dataset to another format."""

    data: Positional[Path]
    """Dataset folder."""
    format: FormatName
    """authors: PNG folders with act.log; minari: a Minari dataset;
    npz: one archive per episode; video: one video file and one CSV file of actions per episode."""
    out: Path
    """New folder."""
    test_fraction: Annotated[float | None, optional("FLOAT", "0, all frames go to train/")] = None
    """authors only: fraction of the frames to write to test/."""
    dataset_id: Annotated[str | None, optional("ID", "made from the name of the game")] = None
    """minari only: dataset id, such as acvp/freeway-v0."""

    def __post_init__(self) -> None:
        require_share(test_fraction=self.test_fraction)


def run_info(config: InfoConfig) -> int:
    """Print a table of what is in a dataset, and write a contact sheet."""
    from acvp.data.verify import contact_sheet, describe

    store = EpisodeStore(config.data)
    table = Table(Column(style="bold"), show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in describe(store):
        table.add_row(name, value)
    out.print(table)
    if store.frames:
        sheet = config.sheet or config.data / "contact-sheet.png"
        try:
            contact_sheet(store, sheet)
        except (OSError, ValueError) as error:
            raise UserError(
                f"{sheet}: the contact sheet cannot be written ({error}); choose another --sheet"
            ) from error
        out.print(f"contact sheet: {sheet}")
    return EXIT_OK


def run_verify(config: VerifyConfig) -> int:
    """Check every byte of a dataset, and with --replay every frame."""
    from acvp.data.verify import verify

    with counting("checking") as show:
        problems = verify(config.data, show)
    if config.replay and not problems:
        problems = _replay(EpisodeStore(config.data))
    for problem in problems:
        err.print(problem)
    if problems:
        return EXIT_PROBLEMS
    store = EpisodeStore(config.data)
    how = "every byte checked" + (", every frame replayed" if config.replay else "")
    out.print(f"{len(store):,} episodes, {store.frames:,} frames: {how}, nothing wrong")
    return EXIT_OK


def _replay(store: EpisodeStore) -> list[str]:
    from acvp.data.replay import first_difference, replay_game

    problems = []
    with replay_game(store) as game, counting("replaying") as show:
        for done, episode in enumerate(store, 1):
            difference = first_difference(episode, game)
            problems += [difference] if difference else []
            show(done, len(store))
    return problems


def run_import(config: ImportConfig) -> int:
    """Import episodes of another format."""
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
    """Export a dataset to another format."""
    from acvp.data.formats import FORMATS, export_store
    from acvp.data.split import split_positions

    store = EpisodeStore(config.data)
    train = test = None
    if config.test_fraction is not None:
        train, test = split_positions(store, test_fraction=config.test_fraction)
    with counting("exporting", "frames") as show:
        export_store(
            config.format, store, config.out, train=train, test=test, dataset_id=config.dataset_id, progress=show
        )
    out.print(f"written to {config.out}; note: {FORMATS[config.format].lost}")
    return EXIT_OK


VERBS = {
    "data info": Verb(options=InfoConfig, run=run_info, example="acvp data info data/freeway"),
    "data verify": Verb(options=VerifyConfig, run=run_verify, example="acvp data verify data/freeway --replay"),
    "data import": Verb(
        options=ImportConfig,
        run=run_import,
        example="acvp data import recordings --format video --env-id freeway --out data/freeway",
    ),
    "data export": Verb(
        options=ExportConfig,
        run=run_export,
        example="acvp data export data/freeway --format npz --out exported/freeway",
    ),
}
