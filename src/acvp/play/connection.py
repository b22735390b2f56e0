"""One page and its session over a socket: commands come in, the newest picture goes out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from starlette.websockets import WebSocket, WebSocketDisconnect

from acvp.errors import UserError
from acvp.play.protocol import Link, Note, PictureStream, Reply, Video, grid_message, parse, video_message, welcome
from acvp.play.session import Session
from acvp.play.worlds import ActionGrid

IN_FLIGHT = 2
"""Unconfirmed pictures at most; later ones wait, and only the newest of those is sent."""
MAX_MESSAGES = 300
"""Messages per second that a page may send before it is disconnected."""
BAD_DATA, TOO_MUCH, FAILED = 1003, 1008, 1011
"""Close codes of the WebSocket standard."""
CLOSE_SECONDS = 2.0
"""Time to send a page the reason why it is disconnected, whether or not it reads."""
MAX_REASON_BYTES = 120
"""Length limit of the reason in a WebSocket close frame."""

OUT_OF_FILES = "too many open files: close some pages, or raise the limit with ulimit -n"

T = TypeVar("T")
log = logging.getLogger("acvp.play")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds that the server waits for a client."""

    request_seconds: float = 10.0
    """From connecting, or from the last response, until the next request has arrived completely and was answered."""
    silent_seconds: float = 30.0
    """A page that leaves a picture unconfirmed for this long is disconnected."""
    idle_seconds: float = 60.0
    """A paused page that has sent nothing for this long is disconnected when another page needs its slot."""


def share_cores() -> None:
    """Limit this thread to half of the cores: the browser needs the others to show the frames."""
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


def is_out_of_files(error: object) -> bool:
    """Return whether an error means that this process, or this machine, can open no more files."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class PageActivity:
    """Which pictures a page has confirmed, and how long it has been silent or idle; times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.sent = self.shown = 0
        """The newest picture sent, and the newest one confirmed."""
        self._last_message = self._unconfirmed_since = now
        self._busy_since: float | None = now  # while the session is being made

    @property
    def room(self) -> bool:
        """Whether another picture may be sent."""
        return self.sent - self.shown < IN_FLIGHT

    def send(self, now: float) -> None:
        """Record that the next picture was sent."""
        if self.sent == self.shown:
            self._unconfirmed_since = now
        self.sent += 1

    def confirm(self, number: int, now: float) -> None:
        """Record that a picture was shown; one that was never sent does not count."""
        if self.shown < min(number, self.sent):
            self.shown, self._unconfirmed_since = min(number, self.sent), now

    def begin_command(self, now: float) -> None:
        """Record that a message has arrived; until it is handled, the page waits for the server."""
        self._last_message = self._busy_since = now

    def end_command(self, now: float) -> None:
        """Record that the message is handled and the next one can be read."""
        if self._busy_since is not None:
            self._unconfirmed_since += now - self._busy_since
        self._last_message, self._busy_since = now, None

    def silent(self, now: float) -> float:
        """Return how long a picture has been unconfirmed."""
        return 0.0 if self.sent == self.shown or self._busy_since is not None else now - self._unconfirmed_since

    def idle(self, now: float) -> float:
        """Return how long no message has arrived."""
        return 0.0 if self._busy_since is not None else now - self._last_message


class _DisconnectError(Exception):
    """The server disconnects the page."""


class Connection:
    """Runs a session at its speed, in a separate thread."""

    def __init__(self, socket: WebSocket, make_session: Callable[[], Session], limits: Limits) -> None:
        self._socket, self._make_session, self._limits = socket, make_session, limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="acvp-play", initializer=share_cores)
        self._stream = PictureStream()
        self._activity = PageActivity(time.monotonic())
        self._disconnect_reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._changed, self._room, self._keys = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._second, self._messages = 0, 0

    @property
    def idle_seconds(self) -> float:
        """How long ago the page last sent anything."""
        return self._activity.idle(time.monotonic())

    def disconnect(self, reason: str) -> None:
        """Make `run` disconnect the page."""
        if not self._disconnect_reason.done():
            self._disconnect_reason.set_result(reason)

    async def run(self) -> None:
        """Play until the page leaves or is disconnected."""
        session: Session | None = None
        try:
            session = await self._in_thread(self._make_session)
            await self._send_welcome(session)
            self._activity.end_command(time.monotonic())
            await _until_first(self._receive(session), self._play(session), self._send(session), self._watch())
        except WebSocketDisconnect:
            pass
        except _DisconnectError as reason:
            await self._close(TOO_MUCH, str(reason))
        except Exception as error:  # a game or a policy of the user may raise anything
            if is_out_of_files(error):
                log.error(OUT_OF_FILES)
            elif not isinstance(error, UserError):
                log.exception("the session failed")
            await self._close(FAILED, f"the session has ended: {error or type(error).__name__}")
        finally:
            if session is not None:
                self._thread.submit(session.close)
            self._thread.shutdown(wait=False)

    async def _receive(self, session: Session) -> None:
        """Handle messages one by one; the next one is read when this one is done, so a page cannot pile up work."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if self._too_many():
                await self._socket.close(TOO_MUCH, f"over {MAX_MESSAGES} messages a second")
                return
            text = message.get("text")
            if text is None:
                await self._socket.close(BAD_DATA, "text messages only")
                return
            self._activity.begin_command(time.monotonic())
            await self._handle(session, text)
            self._activity.end_command(time.monotonic())

    async def _watch(self) -> None:
        """Disconnect a page that leaves a picture unconfirmed for too long, or whose slot is needed."""
        limit = self._limits.silent_seconds
        while self._activity.silent(time.monotonic()) < limit:
            with contextlib.suppress(TimeoutError):
                raise _DisconnectError(await asyncio.wait_for(asyncio.shield(self._disconnect_reason), limit / 4))
        raise _DisconnectError(f"no picture confirmed for {limit:g} seconds: reload to play")

    async def _close(self, code: int, reason: str) -> None:
        """Send the page the reason and close its socket, unless it has gone or does not read."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._reply(Note(reason))
                await self._socket.close(code, reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))

    async def _handle(self, session: Session, text: str) -> None:
        if self._confirmed(text):
            return
        try:
            command = parse(text)
        except UserError as error:
            await self._reply(Note(f"not understood: {error}"))
            return
        if command.name == "hold":
            await self._reply(command.perform(session))
            self._keys.set()
            return
        await self._reply(await self._in_thread(command.perform, session))
        if command.name == "switch":
            await self._send_welcome(session)
        self._changed.set()
        self._keys.set()

    def _confirmed(self, text: str) -> bool:
        """Return whether a message only confirms a picture: "#12"."""
        if not (text.startswith("#") and text[1:].isascii() and text[1:].isdigit() and len(text) < 16):
            return False
        self._activity.confirm(int(text[1:]), time.monotonic())
        if self._activity.room:
            self._room.set()
        return True

    async def _play(self, session: Session) -> None:
        """Take agent steps at the session's speed.

        A key that changes in the second half of the time between two steps takes effect at once, and the step after it
        is not moved: the delay is at most half that time, and the number of steps per second stays the same.
        """
        due = time.monotonic()
        while True:
            if session.paused:
                self._keys.clear()
                await self._keys.wait()
                due = time.monotonic()
                continue
            period = 1 / session.fps
            await asyncio.sleep(due - period / 2 - time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._keys.wait(), max(0.0, due - time.monotonic()))
            self._keys.clear()
            await self._in_thread(_step, session)
            self._changed.set()
            due = max(due + period, time.monotonic())

    async def _send(self, session: Session) -> None:
        """Send the newest picture whenever there is one and few enough are unconfirmed."""
        self._changed.set()
        self._room.set()
        while True:
            await self._changed.wait()
            await self._room.wait()
            self._changed.clear()
            message = await self._in_thread(self._stream.encode, session, self._activity.sent + 1)
            self._activity.send(time.monotonic())
            if not self._activity.room:
                self._room.clear()
            await self._socket.send_bytes(message)

    async def _send_welcome(self, session: Session) -> None:
        await self._socket.send_text(json.dumps({"welcome": welcome(session)}))

    async def _reply(self, reply: Reply) -> None:
        if isinstance(reply, Note):
            await self._socket.send_text(json.dumps({"note": reply.text}))
        elif isinstance(reply, Link):
            await self._socket.send_text(json.dumps({"link": reply.text}))
        elif isinstance(reply, ActionGrid):
            await self._socket.send_bytes(grid_message(reply))
        elif isinstance(reply, Video):
            await self._socket.send_bytes(video_message(reply))

    def _too_many(self) -> bool:
        second = int(time.monotonic())
        self._second, self._messages = second, self._messages + 1 if second == self._second else 1
        return self._messages > MAX_MESSAGES

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def _step(session: Session) -> None:
    """Take an agent step, unless the player has paused meanwhile."""
    if not session.paused:
        session.step()


async def _until_first(main: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run until one of several loops ends, then cancel the others; raise its error, unless `main` has ended."""
    tasks = [asyncio.create_task(loop) for loop in (main, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in [tasks[0]] if tasks[0] in done else done:
        task.result()
