"""UserError, for mistakes that a user can fix: one line and exit code 2; and checks of options that raise it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MAX_REASON = 300
"""Characters of a foreign error's text that are shown."""
MOST = 10**6
"""Limit of what takes memory or time at once: windows, states, steps of a prediction."""
LONGEST = 10**12
"""Limit of what is done one by one and can be stopped: frames to record, agent steps."""
AT_ONCE = 1024
"""Limit of processes, threads or games at the same time."""
MAX_MINUTES = 10**7
"""19 years."""
MAX_SEED = 2**32 - 1
"""The largest seed that all libraries accept."""


class UserError(Exception):
    """Something the user can fix; the message names the value and the cure."""


@contextmanager
def user_code(what: str) -> Iterator[None]:
    """Turn whatever a user's own code raises into a UserError; `what` names the code and the call."""
    try:
        yield
    except (UserError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # SystemExit too: an env must not end acvp
        raise UserError(f"{what} raised {describe(error)} ({_where(error)})") from error


def describe(error: BaseException) -> str:
    """Return the type and the text of an error in one line."""
    try:
        text = one_line(str(error))
    except Exception:  # its __str__ fails
        text = ""
    text = text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _where(error: BaseException) -> str:
    """Return the file and the line that raised an error."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def one_line(text: str) -> str:
    """Return a text without line breaks and with control characters written out."""
    joined = " ".join(text.split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in joined)


class Shard(NamedTuple):
    """One of several equal parts of a job, counted from 1."""

    number: int
    total: int

    def __str__(self) -> str:
        return f"{self.number}/{self.total}"


def parse_shard(text: str) -> Shard:
    """Return the shard that NUMBER/TOTAL stands for; UserError where it is none."""
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text, re.ASCII)
    shard = Shard(int(match[1]), int(match[2])) if match else None
    if shard is None or not 1 <= shard.number <= shard.total:
        raise UserError(f"--shard {text}: write NUMBER/TOTAL with a number from 1 to the total, such as 3/16")
    return shard


def require_shard(text: str | None) -> None:
    """Raise UserError unless a text, if there is one, names a shard."""
    if text is not None:
        parse_shard(text)


REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
"""A repository of the Hugging Face hub: owner/name."""


def require_repository(value: str, option: str = "") -> None:
    """Raise UserError unless a value, that of an option or an argument, names a repository of the hub."""
    if not REPOSITORY.fullmatch(value):
        raise UserError(f"{option} {value}".strip() + ": write owner/name, a repository of the Hugging Face hub")


def require_device(device: str) -> None:
    """Raise UserError for a name that no device has; whether this machine has the device is checked by pick_device."""
    if not re.fullmatch(r"auto|cpu|cuda|cuda:\d{1,3}|mps", device, re.ASCII):
        names = "auto, cpu, cuda, cuda:1 (the second GPU) or mps"
        raise UserError(f"--device {device}: no device has this name; use {names}")


def require(least: float, most: float = MOST, **values: float | None) -> None:
    """Raise UserError for values below `least` or above `most`; None: not given."""
    for name, value in values.items():
        if value is None:
            continue
        if not value >= least:  # also what is not a number
            raise UserError(f"{_option(name, value)}: at least {least:g}")
        if value > most:
            raise UserError(f"{_option(name, value)}: at most {most:,}")


def require_above_zero(most: float, **values: float | None) -> None:
    """Raise UserError for values that are not above 0 or are above `most`; None: not given."""
    for name, value in values.items():
        if value is not None and not 0 < value <= most:
            raise UserError(f"{_option(name, value)}: more than 0 and at most {most:,}")


def require_seed(seed: int) -> None:
    """Raise UserError for a seed that some library does not accept."""
    require(0, MAX_SEED, seed=seed)


def require_probability(*, below_one: bool = False, **values: float | None) -> None:
    """Raise UserError for values that are not probabilities; None: not given."""
    for name, value in values.items():
        if value is not None and not (0 <= value < 1 if below_one else 0 <= value <= 1):
            raise UserError(f"{_option(name, value)}: a probability lies between 0 and 1{', below 1' * below_one}")


def require_share(**values: float | None) -> None:
    """Raise UserError for values that are not between 0 and 1; None: not given."""
    for name, value in values.items():
        if value is not None and not 0 < value < 1:
            raise UserError(f"{_option(name, value)}: more than 0 and less than 1")


def _option(name: str, value: float) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value) if abs(value) < 10**18 else "(over 18 digits)"
    return f"--{name.replace('_', '-')} {shown}"
