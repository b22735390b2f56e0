"""Bounds of numeric options: what is no number, not finite or beyond any use is refused by its option's name."""

from __future__ import annotations

from acvp.errors import UserError

MOST = 10**6
"""Of what takes memory or time before anything else happens: windows, states, steps of a prediction."""
LONGEST = 10**12
"""Of what is done one after the other and can be stopped: frames to record, agent steps."""
AT_ONCE = 1024
"""Processes, threads or games at the same time."""
MAX_MINUTES = 10**7
"""19 years."""
MAX_SEED = 2**32 - 1
"""The largest that all libraries take."""


def require(least: float, most: float = MOST, **values: float | None) -> None:
    """Refuse values under the least or over the most, by the name of their option; None is not given."""
    for name, value in values.items():
        if value is None:
            continue
        if not value >= least:  # also what is not a number
            raise UserError(f"{_option(name, value)}: at least {least:g}")
        if value > most:
            raise UserError(f"{_option(name, value)}: at most {most:,}")


def require_above_zero(most: float, **values: float | None) -> None:
    """Refuse values of 0 and below or over the most, by the name of their option; None is not given."""
    for name, value in values.items():
        if value is not None and not 0 < value <= most:
            raise UserError(f"{_option(name, value)}: more than 0 and at most {most:,}")


def require_seed(seed: int) -> None:
    """Refuse a seed that some library would."""
    require(0, MAX_SEED, seed=seed)


def require_probability(*, below_one: bool = False, **values: float | None) -> None:
    """Refuse what is no probability, by the name of its option; None is not given."""
    for name, value in values.items():
        if value is not None and not (0 <= value < 1 if below_one else 0 <= value <= 1):
            raise UserError(f"{_option(name, value)}: a probability lies between 0 and 1{', below 1' * below_one}")


def require_share(**values: float | None) -> None:
    """Refuse what is not between 0 and 1, by the name of its option; None is not given."""
    for name, value in values.items():
        if value is not None and not 0 < value < 1:
            raise UserError(f"{_option(name, value)}: more than 0 and less than 1")


def _option(name: str, value: float) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value) if abs(value) < 10**18 else "(over 18 digits)"
    return f"--{name.replace('_', '-')} {shown}"
