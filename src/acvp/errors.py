"""UserError, for mistakes that a user can fix: the command line prints it as one line and exits with code 2."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_REASON = 300
"""Characters of a foreign error's text that are shown."""


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
