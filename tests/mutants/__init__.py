"""Mutants: small wrong changes to the package, each with the test that must fail on it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One wrong change."""

    name: str
    """What would be wrong, in a few words."""
    file: str
    """Path below src/acvp."""
    original: str
    """Text that occurs exactly once in the file."""
    mutated: str
    """What takes its place."""
    test: str
    """Id of the test that must fail, below tests, without parameters."""
