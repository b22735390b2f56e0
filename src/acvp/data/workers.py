"""Plays episodes in this process or in several; what comes back is the episode, finished and compressed.

Workers only play: the parent alone writes. A worker whose parent is gone ends at once, in the middle of an episode too.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from acvp.data.episode import Episode
from acvp.data.part import parse, serialize
from acvp.errors import UserError

PlayEpisode = Callable[[int], Episode]
MakePlayer = Callable[[Any], PlayEpisode]


class LocalWorker:
    """Plays in this process: `submit` plays the episode, `collect` hands it over."""

    def __init__(self, play: PlayEpisode) -> None:
        self._play = play
        self._finished: list[Episode] = []

    @property
    def free(self) -> int:
        return 1 - len(self._finished)

    def submit(self, number: int) -> None:
        self._finished.append(self._play(number))

    def collect(self) -> list[Episode]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        pass


@dataclass
class _Process:
    process: Any
    pipe: Connection
    busy: bool = False


class WorkerProcesses:
    """Plays in `count` processes; episodes come back in the order in which they end."""

    def __init__(self, make_player: MakePlayer, config: Any, count: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share the emulator's and the lock's state
        self._workers: list[_Process] = []
        with _unheard_ctrl_c():
            for _ in range(count):
                here, there = context.Pipe()
                process = context.Process(target=_work, args=(there, make_player, config), daemon=True)
                process.start()
                there.close()
                self._workers.append(_Process(process, here))

    @property
    def free(self) -> int:
        return sum(not worker.busy for worker in self._workers)

    def submit(self, number: int) -> None:
        worker = next(worker for worker in self._workers if not worker.busy)
        try:
            worker.pipe.send_bytes(str(number).encode())
        except OSError as error:
            raise _died(worker) from error
        worker.busy = True

    def collect(self) -> list[Episode]:
        """Wait until an episode has ended; all that have."""
        ready = wait([worker.pipe for worker in self._workers if worker.busy])
        return [self._receive(worker) for worker in self._workers if worker.pipe in ready]

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()

    def _receive(self, worker: _Process) -> Episode:
        try:
            kind, data = worker.pipe.recv_bytes(1), worker.pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise _died(worker) from error
        worker.busy = False
        if kind == b"e":
            raise UserError(data.decode())
        if kind == b"x":
            raise RuntimeError(f"in a worker process:\n{data.decode()}")
        return parse(data)


def _died(worker: _Process) -> UserError:
    worker.process.join()
    return UserError(
        f"a worker process died (exit code {worker.process.exitcode}); run again to go on. In a "
        'script of your own, call collect below `if __name__ == "__main__":`, for workers import the script'
    )


@contextmanager
def _unheard_ctrl_c() -> Iterator[None]:
    """Processes begun in here never hear ctrl-C, not even while they start up; this one hears it at the end."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover - Windows
        yield
        return
    resource_tracker.ensure_running()  # begun later, it would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, make_player: MakePlayer, config: Any) -> None:
    """A worker's life: a number in, an episode out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the parent's to handle, where masks do not exist too
    threading.Thread(target=_end_with_parent, daemon=True).start()
    play: PlayEpisode | None = None
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            number = int(pipe.recv_bytes())
            try:
                play = play or make_player(config)
                kind, data = b"p", serialize(play(number))
            except UserError as error:
                kind, data = b"e", str(error).encode()
            except Exception:
                kind, data = b"x", traceback.format_exc().encode()
            pipe.send_bytes(kind)
            pipe.send_bytes(data)
    sys.exit(0)


def _end_with_parent() -> None:
    """Wait until the parent is gone, however it ended, then end this process, whatever it is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
