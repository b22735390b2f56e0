"""Options of `acvp data`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional

from acvp.data.recording import MAX_ACTIONS
from acvp.errors import require, require_share
from acvp.options import Module, optional


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
