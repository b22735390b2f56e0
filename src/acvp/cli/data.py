"""`acvp data`: shows, checks, imports, exports, merges, splits, filters and shares datasets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.table import Column, Table
from tyro.conf import Positional, arg

from acvp.actions import ActionRange
from acvp.cli.main import Verb
from acvp.console import DatasetFolder, Module, counted, counting, err, optional, out
from acvp.data.episode import MAX_ACTIONS
from acvp.data.merge import Criteria, copy_filtered, copy_split, merge, parse_range
from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.errors import UserError, require, require_repository, require_seed, require_share
from acvp.exits import EXIT_OK, EXIT_PROBLEMS


@dataclass(frozen=True)
class InfoConfig:
    """Print a table of a dataset's contents and write a contact sheet of its frames."""

    data: Positional[DatasetFolder]
    """Dataset folder."""
    sheet: Annotated[Path | None, optional("FILE", "contact-sheet.png in the dataset folder")] = None
    """Image file of the contact sheet."""


@dataclass(frozen=True)
class VerifyConfig:
    """Check every byte of a dataset, list all damage, and exit with 1 if there is any."""

    data: Positional[DatasetFolder]
    """Dataset folder."""
    replay: bool = False
    """Also replay all episodes in the game and compare every frame. Takes about as long as recording."""
    import_module: Module = None


FormatName = Literal["authors", "datasets", "lerobot", "minari", "npz", "video"]


@dataclass(frozen=True)
class ImportConfig:
    """Import episodes of another format into a dataset. Folders train and test become two datasets."""

    source: Positional[Path]
    """File or folder to import, or the id of a Minari dataset."""
    format: FormatName
    """authors: PNG folders with act.log; datasets: folder of a Hugging Face dataset;
    lerobot: folder of a LeRobot dataset; minari: folder or id of a Minari dataset;
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

    data: Positional[DatasetFolder]
    """Dataset folder."""
    format: FormatName
    """authors: PNG folders with act.log; datasets: a Hugging Face dataset; lerobot: a LeRobot dataset;
    minari: a Minari dataset;
    npz: one archive per episode; video: one video file and one CSV file of actions per episode."""
    out: Path
    """New folder."""
    test_fraction: Annotated[float | None, optional("FLOAT", "0, all frames go to train/")] = None
    """authors only: fraction of the frames to write to test/."""
    dataset_id: Annotated[str | None, optional("ID", "made from the name of the game")] = None
    """minari only: dataset id, such as acvp/freeway-v0."""

    def __post_init__(self) -> None:
        require_share(test_fraction=self.test_fraction)


@dataclass(frozen=True)
class MergeConfig:
    """Copy the episodes of several datasets into a new one. If interrupted, run it again to resume.

    Frame sizes and actions must agree. Shards of a collection become the dataset that one collection would have made.
    """

    data: Annotated[Positional[tuple[Path, ...]], arg(metavar="DATASET …", help_behavior_hint="(required)")]
    """Dataset folders, at least two."""
    out: Path
    """New dataset folder."""


@dataclass(frozen=True)
class SplitConfig:
    """Copy a dataset into two, train and test, that share no content, as acvp train splits it."""

    data: Positional[DatasetFolder]
    """Dataset folder."""
    out: Path
    """Folder for the new datasets train and test."""
    test_fraction: float = 0.1
    """Fraction of the frames that go to test, in whole episodes."""
    seed: int = 1
    """Random seed of the split."""

    def __post_init__(self) -> None:
        require_share(test_fraction=self.test_fraction)
        require_seed(self.seed)


@dataclass(frozen=True)
class FilterConfig:
    """Copy the episodes of a dataset that meet all criteria into a new one. They keep their numbers."""

    data: Positional[DatasetFolder]
    """Dataset folder."""
    out: Path
    """New dataset folder."""
    policy: Annotated[tuple[str, ...], optional("NAME …", "any")] = ()
    """Keep episodes that one of these policies played; acvp data info lists them."""
    returns: Annotated[str | None, optional("MIN:MAX", "any")] = None
    """Keep episodes with a sum of rewards in this range, such as 10: or -21:0."""
    length: Annotated[str | None, optional("MIN:MAX", "any")] = None
    """Keep episodes with a number of frames in this range, such as 20:."""
    episodes: Annotated[str | None, optional("MIN:MAX", "any")] = None
    """Keep episodes with a number in this range, such as 0:99."""

    def __post_init__(self) -> None:
        if not self.policy and {self.returns, self.length, self.episodes} == {None}:
            raise UserError("acvp data filter: give --policy, --returns, --length or --episodes")
        self.criteria()

    def criteria(self) -> Criteria:
        """Return what an episode must be to be kept."""
        given = {"returns": self.returns, "length": self.length, "episodes": self.episodes}
        ranges = {name: parse_range(name, text) for name, text in given.items() if text is not None}
        return Criteria(policies=self.policy, **ranges)


@dataclass(frozen=True)
class PushConfig:
    """Upload a dataset and its card to the Hugging Face hub. Log in first: hf auth login."""

    data: Positional[DatasetFolder]
    """Dataset folder."""
    to: Annotated[str, arg(metavar="OWNER/NAME")]
    """Repository, owner/name. It is created if it does not exist."""
    private: bool = False
    """Create the repository as a private one, which only you can see."""

    def __post_init__(self) -> None:
        require_repository(self.to, "--to")


@dataclass(frozen=True)
class PullConfig:
    """Download a dataset from the Hugging Face hub and check every byte. If interrupted, run it again to resume."""

    source: Annotated[Positional[str], arg(metavar="OWNER/NAME")]
    """Repository, owner/name, that acvp data push has written."""
    out: Path
    """New dataset folder."""

    def __post_init__(self) -> None:
        require_repository(self.source)


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
    out.print(f"{counted(len(store), 'episode')}, {counted(store.frames, 'frame')}: {how}, nothing wrong")
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
    limits: ActionRange = ()
    if env_id is not None and actions is None:
        try:
            with make_game(env_id) as game:
                env_id, actions, limits = game.env_id, game.action_meanings, game.action_range
        except UserError as error:
            raise UserError(f"{error}; or give --actions N, for a game that is not installed") from error
    notes: list[str] = []
    with counting("importing", "frames") as show:
        stores = import_store(
            config.format, config.source, config.out, env_id=env_id, actions=actions, action_range=limits,
            progress=show, note=notes.append,
        )  # fmt: skip
    for store in stores:
        out.print(repr(store))
    if FORMATS[config.format].unknown:
        notes.insert(0, FORMATS[config.format].unknown)
    for note in notes:
        out.print(f"note: {note}")
    return EXIT_OK


def run_export(config: ExportConfig) -> int:
    """Export a dataset to another format."""
    from acvp.data.formats import FORMATS, export_store
    from acvp.data.merge import split_positions

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


def run_merge(config: MergeConfig) -> int:
    """Copy several datasets into one."""
    with counting("merging") as show:
        store = merge(config.data, config.out, show)
    out.print(repr(store))
    return EXIT_OK


def run_split(config: SplitConfig) -> int:
    """Copy a dataset into train and test."""
    with counting("splitting") as show:
        parts = copy_split(
            EpisodeStore(config.data), config.out, test_fraction=config.test_fraction, seed=config.seed, progress=show
        )
    for store in parts:
        out.print(repr(store))
    return EXIT_OK


def run_filter(config: FilterConfig) -> int:
    """Copy some episodes of a dataset."""
    with counting("filtering") as show:
        store = copy_filtered(EpisodeStore(config.data), config.criteria(), config.out, show)
    out.print(repr(store))
    return EXIT_OK


def run_push(config: PushConfig) -> int:
    """Upload a dataset."""
    from acvp.hub import push_dataset

    store = EpisodeStore(config.data)
    out.print(f"uploaded to {push_dataset(config.to, store, private=config.private)}")
    return EXIT_OK


def run_pull(config: PullConfig) -> int:
    """Download a dataset."""
    from acvp.hub import pull_dataset

    with counting("checking") as show:
        store = pull_dataset(config.source, config.out, show)
    out.print(repr(store))
    return EXIT_OK


VERBS = {
    "data info": Verb(options=InfoConfig, run=run_info, example="acvp data info stores/freeway"),
    "data verify": Verb(options=VerifyConfig, run=run_verify, example="acvp data verify stores/freeway --replay"),
    "data import": Verb(
        options=ImportConfig,
        run=run_import,
        example="acvp data import recordings --format video --env-id freeway --out stores/freeway",
    ),
    "data export": Verb(
        options=ExportConfig,
        run=run_export,
        example="acvp data export stores/freeway --format npz --out exported/freeway",
    ),
    "data merge": Verb(
        options=MergeConfig, run=run_merge, example="acvp data merge stores/a stores/b --out stores/both"
    ),
    "data split": Verb(options=SplitConfig, run=run_split, example="acvp data split stores/freeway --out stores/parts"),
    "data filter": Verb(
        options=FilterConfig,
        run=run_filter,
        example="acvp data filter stores/freeway --returns 10: --out stores/freeway-good",
    ),
    "data push": Verb(
        options=PushConfig, run=run_push, example="acvp data push stores/freeway --to me/freeway-episodes"
    ),
    "data pull": Verb(
        options=PullConfig, run=run_pull, example="acvp data pull me/freeway-episodes --out stores/freeway"
    ),
}
