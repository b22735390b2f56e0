"""The files of the page, which come with the package."""

from __future__ import annotations

from importlib.resources import files


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    return {file.name: file.read_bytes() for file in files("acvp.play").joinpath("page").iterdir() if file.is_file()}
