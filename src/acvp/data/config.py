"""Options of `acvp data`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from acvp.data.recording import MAX_ACTIONS
from acvp.options import require, require_share


@dataclass(frozen=True)
class InfoConfig:
    """Print a table of a dataset's contents and write a contact sheet of its frames."""

    data: Positional[Path]
    """Folder of the dataset."""
    sheet: Path | None = None
    """Where to write the contact sheet; None: contact-sheet.png in the dataset's folder."""


@dataclass(frozen=True)
class VerifyConfig:
    """Check every byte of a dataset, list all damage, and exit with 1 if there is any."""

    data: Positional[Path]
    """Folder of the dataset."""
    replay: bool = False
    """Also replay all episodes in the game and compare every frame; takes about as long as the recording."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, which registers the game; importing runs its code, so trust it first."""


FormatName = Literal["authors", "minari", "npz", "video"]


@dataclass(frozen=True)
class ImportConfig:
    """Import episodes of another format into a dataset; train and test folders give two datasets."""

    source: Positional[Path]
    """File, folder, or id of a Minari dataset."""
    format: FormatName
    """authors: PNG folders with act.log; minari: a dataset's folder or id; npz: an archive per episode; video: a video
    file with a CSV of actions per episode."""
    out: Path
    """Folder of the new dataset."""
    env_id: str | None = None
    """Id of the game; if it is installed, it gives the names of the actions. None: the source's name."""
    actions: int | None = None
    """Number of actions; None: that of the game, or the highest action plus one."""

    def __post_init__(self) -> None:
        require(1, MAX_ACTIONS, actions=self.actions)


@dataclass(frozen=True)
class ExportConfig:
    """Export a dataset to another format."""

    data: Positional[Path]
    """Folder of the dataset."""
    format: FormatName
    """See acvp data import."""
    out: Path
    """New folder."""
    test_fraction: float | None = None
    """authors: share of the frames that goes to test/; None: all to train/."""
    dataset_id: str | None = None
    """minari: id of the dataset, such as acvp/freeway-v0; None: made from the game's name."""

    def __post_init__(self) -> None:
        require_share(test_fraction=self.test_fraction)
