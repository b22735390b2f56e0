"""A run that is asked to stop: SIGTERM and ctrl-C become a request that the loop looks at, so that it can save."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
