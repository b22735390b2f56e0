"""How commands exit: one line on stderr and a documented exit code, whatever happened; SIGINT and SIGTERM.

A signal is a request that a loop looks at, or an exception. This module is imported before anything that takes time, so
that ctrl-C is handled from the start; it imports little itself.
"""

from __future__ import annotations

import atexit
import codecs
import io
import mmap
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import ENOMEM
from signal import SIGINT
from types import FrameType
from typing import Any

from acvp import __version__
from acvp.errors import UserError, describe, one_line

RETRY_SECONDS = 0.05
"""Seconds until a signal that came during an import is handled again."""
PATIENCE_SECONDS = 30.0
"""Seconds for which an import may delay a signal; a second signal is never delayed."""


class StoppedError(Exception):
    """The run was asked to stop, and has saved its state."""

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
    """Turn SIGTERM and ctrl-C into a request that a training loop looks at after each step."""
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
    """Return the message of a command that was stopped by a signal."""
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    return f"stopped{by}; run the same command again"


class SignalHandler:
    """Handles SIGINT and SIGTERM of a process from its first line to its last, so that neither prints a traceback.

    While acvp itself is imported, nothing is open yet and the process exits at once. Later the signal is an exception,
    so that files, locks and workers are closed. An exception during an import can be lost or replaced by another one,
    so it waits for the import's end. One that Python has to drop, for example in a destructor, is raised again.
    """

    def __init__(self) -> None:
        self.number = 0
        """The first signal that came; 0: none."""
        self.loading = True
        self.ending = False
        """The command is over: signals no longer interrupt."""
        self.exit_code: int | None = None
        self._delayed_until = 0.0

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
        self._delayed_until = time.monotonic() + PATIENCE_SECONDS
        self._retry(number, frame)

    def _retry(self, number: int, frame: FrameType | None) -> None:
        if self.ending or not self.number:
            return
        if _importing(frame) and time.monotonic() < self._delayed_until and hasattr(signal, "setitimer"):
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
        """Ignore signals, retried ones too, while the interpreter shuts down: the exit code is decided."""
        for name in ("SIGINT", "SIGTERM", "SIGALRM"):
            if hasattr(signal, name):  # Windows has no alarms
                signal.signal(getattr(signal, name), signal.SIG_IGN)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


EXIT_OK, EXIT_PROBLEMS, EXIT_USER_ERROR, EXIT_BUG, EXIT_CLOSED_PIPE = 0, 1, 2, 70, 141
EXIT_CODES = (
    "Exit codes: 0 done; 1 problems found (data verify, reproduce); "
    "2 something you can fix, named in one line on stderr; "
    "130 and 143 stopped by SIGINT (ctrl-C) and SIGTERM; 141 the program that reads the output has exited; "
    "70 a bug in acvp, with the file that holds the traceback (ACVP_DEBUG=1 prints it)."
)

PLAIN = str.maketrans(
    {"±": "+/-", "×": "x", "ε": "epsilon", "→": "->", "–": "-", "—": "-", "−": "-", "…": "...", "’": "'", "•": "*"}
    | dict.fromkeys("─━═", "-")
    | dict.fromkeys("│┃║", "|")
    | dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼", "+")
)
"""Replacements for an output that cannot print the character."""

MEMORY_SIGNS = (
    "allocate memory",
    "out of memory",
    "insufficient memory",
    "bad_alloc",
    "can't start new thread",
    "failed to map segment",
)
"""Parts of messages with which libraries report a lack of memory without MemoryError."""
SILENT_SIGNS = ("without exception set", "without setting an exception")
"""Parts of messages with which Python reports that a C function failed without a reason."""

NO_MEMORY_LEFT = b"acvp: not enough memory: close other programs, raise ulimit -v, or ask for less at once\n"
"""Made beforehand, for when there is no memory left to make a message."""
RESERVE_BYTES = 2**24
"""Address space that a process keeps for its end, in which it has to report that it got no memory."""

handler = SignalHandler()
_reserve: list[mmap.mmap] = []


class Output(io.TextIOWrapper):
    """Standard output that replaces what its encoding cannot print, and names itself in errors."""

    def write(self, text: str) -> int:
        """Write text."""
        with self._named():
            return super().write(text)

    def flush(self) -> None:
        """Flush what is written."""
        with self._named():
            super().flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            error.filename = self.name.strip("<>")
            raise


def start() -> None:
    """Prepare this process: handle its signals, reserve memory for its end, and let its output print any text."""
    handler.install()
    with suppress(OSError):
        _reserve.append(mmap.mmap(-1, RESERVE_BYTES))  # not touched: it takes addresses only
    codecs.register_error("acvp", _respell)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # None where it is closed
            output = Output(
                stream.buffer,
                stream.encoding,
                errors="acvp",
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, output)


def run_process(command: Callable[[], int]) -> int:
    """Run the command of this process as `run` does, after preparing its signals and output."""
    start()
    handler.exit_code = code = run(command)
    return code


def run(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; what it raises becomes one line on stderr."""
    try:
        code = _run_and_flush(command)
        handler.ending = True
    except SystemExit:  # of the parser, after its help or its error
        handler.ending = True
        raise
    except BaseException as error:
        handler.ending = True
        _reserve.clear()
        try:
            return _end(error)
        except (MemoryError, SystemError):  # too little memory even to say so
            os.write(2, NO_MEMORY_LEFT)
            return EXIT_USER_ERROR
    return code


def _run_and_flush(command: Callable[[], int]) -> int:
    try:
        code = command()
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich exits when the reader has gone
            raise error.__context__ from None
        _flush()
        raise
    _flush()
    return code


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _end(error: BaseException) -> int:
    """Print one line about why a command ended, and return the exit code."""
    _drop_output()
    if os.environ.get("ACVP_DEBUG"):
        traceback.print_exception(error)
    if handler.number or isinstance(error, KeyboardInterrupt):
        number = handler.number or SIGINT
        print_error(stop_line(number))
        return 128 + number
    if isinstance(error, BrokenPipeError):
        return EXIT_CLOSED_PIPE  # silently, as is usual when the reader has gone
    message = _reason(error)
    print_error(message or _report_bug(error))
    return EXIT_USER_ERROR if message else EXIT_BUG


def _drop_output() -> None:
    """If stdout cannot be written, discard the rest, or Python would print an error when it exits."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _reason(error: BaseException) -> str | None:
    """Return the message for a user about an error; None: it is a bug."""
    if isinstance(error, UserError):
        return str(error)
    lack = lack_of_memory(error)
    if lack is not None:
        traceback.clear_frames(error.__traceback__)  # there may be too little left for a line of text
        return f"not enough memory ({describe(lack)}): close other programs, raise ulimit -v, or ask for less at once"
    if isinstance(error, OSError):
        path = error.filename if error.filename is not None else error.filename2
        reason = error.strerror or describe(error)
        return reason if path is None else f"{os.fsdecode(path) if isinstance(path, bytes) else path}: {reason}"
    return None


def lack_of_memory(error: BaseException | None) -> BaseException | None:
    """Return the lack of memory among the causes of an error; None: there is none."""
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == ENOMEM):
            return error
        text = str(error).lower() if isinstance(error, RuntimeError | ImportError | OSError) else ""
        if any(sign in text for sign in MEMORY_SIGNS) or _failed_silently(error):
            return error
        error = error.__cause__ or error.__context__
    return None


def _failed_silently(error: BaseException) -> bool:
    """Whether a C library failed without a reason under `ulimit -v`: it got no memory and did not report it."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return False
    limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
    return limited and isinstance(error, SystemError) and any(sign in str(error) for sign in SILENT_SIGNS)


def _report_bug(error: BaseException) -> str:
    """Write the traceback to a file and return the message about it."""
    about = f"acvp {__version__}, Python {platform.python_version()}, {platform.platform()}\n{sys.argv}\n"
    try:
        number, file = tempfile.mkstemp(prefix="acvp-bug-", suffix=".txt")
        with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(about + "".join(traceback.format_exception(error)))
        where = f"please report it with {file}"
    except OSError:
        where = "ACVP_DEBUG=1 prints the traceback"
    return f"unexpected {describe(error)}; this is a bug in acvp: {where}"


def print_error(text: str) -> None:
    """Print one line on stderr, if possible."""
    try:
        sys.stderr.write(f"acvp: {one_line(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # full, closed, or none
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _respell(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by ASCII, or by a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    plain = error.object[error.start : error.end].translate(PLAIN)
    return plain.encode("ascii", "replace").decode(), error.end
