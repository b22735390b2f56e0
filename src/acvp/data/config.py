"""What `acvp data` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from acvp.data.recording import MAX_ACTIONS
from acvp.options import require, require_share


@dataclass(frozen=True)
class InfoConfig:
    """Show what is in a store: a table, and a contact sheet of its frames."""

    data: Positional[Path]
    """Folder of the store."""
    sheet: Path | None = None
    """Where to write the contact sheet; None: contact-sheet.png in the store's folder."""


@dataclass(frozen=True)
class VerifyConfig:
    """Check every byte of a store; lists all damage and exits with 1 if there is any."""

    data: Positional[Path]
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

    def __post_init__(self) -> None:
        require(1, MAX_ACTIONS, actions=self.actions)


@dataclass(frozen=True)
class ExportConfig:
    """Write a store's episodes in another format."""

    data: Positional[Path]
    """Folder of the store."""
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
