"""Generators: every purpose and every key has its own stream, and it stays the same."""

from __future__ import annotations

from acvp.seeding import derived_seed, generator

NUMBERS = (1558639185, 8859888, 1925233866, 551103745)
"""Of ("windows", 1, 2)."""


def numbers(purpose: str, *key: int) -> tuple[int, ...]:
    return tuple(generator(purpose, *key).integers(2**31, size=4).tolist())


def test_every_purpose_and_key_has_its_own_stream() -> None:
    """Neither the order of the numbers in a key nor their sum is enough, and neither is any one of them."""
    keys = [(1, 2), (2, 1), (0, 3), (3, 0), (1, 1), (1, 0), (2, 2), (0, 0)]
    streams = [numbers(purpose, *key) for purpose in ("windows", "plays") for key in keys]
    assert len(set(streams)) == len(streams)
    seeds = [derived_seed(purpose, *key) for purpose in ("windows", "plays") for key in keys]
    assert len(set(seeds)) == len(seeds)


def test_streams_stay_the_same() -> None:
    """A change of these numbers changes the data that every seed stands for: say so in the changelog."""
    assert numbers("windows", 1, 2) == NUMBERS
    assert derived_seed("windows", 1, 2) == NUMBERS[0]
