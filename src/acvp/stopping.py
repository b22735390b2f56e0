"""A command that is asked to stop: SIGINT and SIGTERM as a request that a loop looks at, or as an exception."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

RETRY_SECONDS = 0.05
"""Until a signal that came while a module was being imported is looked at again."""
PATIENCE_SECONDS = 30.0
"""For which an import may put off a signal; a second signal is never put off."""


class StoppedError(Exception):
    """The run was asked to stop, and has saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class StopRequest:
    """Remembers the first SIGTERM or SIGINT; a second ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Turn SIGTERM and ctrl-C into a request that the training loop looks at after each step."""
    request = StopRequest()
    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM reached a command that has nothing to save."""


def stop_line(number: int) -> str:
    """Return what a command says that was stopped by a signal."""
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return f"stopped{by}; run the same command again"


class SignalHandler:
    """Handles SIGINT and SIGTERM of a process from its first line to its last, so that neither prints a traceback.

    While acvp itself is imported, nothing is open yet and the process ends at once. Later the signal is an exception,
    so that files, locks and workers are closed. An exception within an import can be lost or turned into another one,
    so it waits for the import's end; one that Python has to drop (in a destructor, say) is raised again.
    """

    def __init__(self) -> None:
        self.number = 0
        """The first signal that came; 0: none."""
        self.loading = True
        self.ending = False
        """The command is over: signals no longer interrupt."""
        self.exit_code: int | None = None
        self._put_off_until = 0.0

    def install(self) -> None:
        """Handle the signals of this process; ones that are ignored (of a background job) stay ignored."""
        atexit.register(self._ignore)  # the first one registered is the last one called
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self)
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self._retry)
        sys.unraisablehook = self._unraisable

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.loading:
            with suppress(OSError):
                os.write(2, f"acvp: {stop_line(number)}\n".encode())
            os._exit(128 + number)
        if self.ending:
            if self.exit_code is not None:
                os._exit(self.exit_code)
            return
        if self.number:
            self._interrupt()
        self.number = number
        self._put_off_until = time.monotonic() + PATIENCE_SECONDS
        self._retry(number, frame)

    def _retry(self, number: int, frame: FrameType | None) -> None:
        if self.ending or not self.number:
            return
        if _importing(frame) and time.monotonic() < self._put_off_until and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        raise Interrupted(self.number)

    def _unraisable(self, dropped: Any) -> None:
        if not self.number:
            sys.__unraisablehook__(dropped)
        elif issubclass(dropped.exc_type, KeyboardInterrupt) and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)

    def _ignore(self) -> None:
        """Let the interpreter's own end be undisturbed: it resets Python's handlers, and the exit code is decided."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
