"""One page and its session over a socket: keys come in, the newest picture goes out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.websockets import WebSocket, WebSocketDisconnect

from acvp.errors import UserError
from acvp.play.imagined import share_cores
from acvp.play.limits import OUT_OF_FILES, Limits, is_out_of_files
from acvp.play.protocol import Note, PictureStream, Reply, Video, grid_message, parse, video_message, welcome
from acvp.play.rewind import Grid
from acvp.play.session import Session

IN_FLIGHT = 2
"""Pictures on their way that the page has not yet confirmed; more wait, and only the newest of those is sent."""
MOST_MESSAGES = 300
"""Of a page in a second; who sends more is cut off."""
BAD_DATA, TOO_MUCH, FAILED = 1003, 1008, 1011
"""Codes of the WebSocket standard."""
CLOSE_SECONDS = 2.0
"""For telling a page why it is disconnected; one that does not read is not waited for."""
LONGEST_REASON = 120
"""Bytes of the reason that a closing socket may give."""

T = TypeVar("T")
log = logging.getLogger("acvp.play")


class Presence:
    """Which pictures a page has confirmed, and how long it has kept the server waiting; times are monotonic seconds."""

    def __init__(self, now: float) -> None:
        self.sent = self.shown = 0
        """The newest picture sent, and the newest one confirmed."""
        self._heard = self._owing = now
        self._obeying: float | None = now  # the session is being made

    @property
    def room(self) -> bool:
        """Whether another picture may be sent."""
        return self.sent - self.shown < IN_FLIGHT

    def send(self, now: float) -> None:
        """Note that the next picture is on its way."""
        if self.sent == self.shown:
            self._owing = now
        self.sent += 1

    def confirm(self, number: int, now: float) -> None:
        """Note that a picture was shown; one that was never sent does not count."""
        if self.shown < min(number, self.sent):
            self.shown, self._owing = min(number, self.sent), now

    def begin_command(self, now: float) -> None:
        """Note that a message has come in; until it is dealt with, the server is the one to wait for."""
        self._heard = self._obeying = now

    def end_command(self, now: float) -> None:
        """Note that the next message can be read."""
        if self._obeying is not None:
            self._owing += now - self._obeying
        self._heard, self._obeying = now, None

    def silent(self, now: float) -> float:
        """Return for how long a picture has been unconfirmed."""
        return 0.0 if self.sent == self.shown or self._obeying is not None else now - self._owing

    def idle(self, now: float) -> float:
        """Return for how long nothing has come in."""
        return 0.0 if self._obeying is not None else now - self._heard


class _DismissedError(Exception):
    """The server takes the page's seat away."""


class Connection:
    """Plays a session at its pace; everything the session does happens in one thread of its own."""

    def __init__(self, socket: WebSocket, make_session: Callable[[], Session], limits: Limits) -> None:
        self._socket, self._make_session, self._limits = socket, make_session, limits
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="acvp-play", initializer=share_cores)
        self._stream = PictureStream()
        self._presence = Presence(time.monotonic())
        self._dismissal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._news, self._room, self._keys = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._second, self._messages = 0, 0

    @property
    def idle_seconds(self) -> float:
        """How long ago the page last sent anything."""
        return self._presence.idle(time.monotonic())

    def dismiss(self, reason: str) -> None:
        """Let `run` disconnect the page."""
        if not self._dismissal.done():
            self._dismissal.set_result(reason)

    async def run(self) -> None:
        """Play until the page leaves or is dismissed."""
        session: Session | None = None
        try:
            session = await self._in_thread(self._make_session)
            await self._greet(session)
            self._presence.end_command(time.monotonic())
            await _until_first(self._receive(session), self._play(session), self._send(session), self._watch())
        except WebSocketDisconnect:
            pass
        except _DismissedError as dismissed:
            await self._close(TOO_MUCH, str(dismissed))
        except Exception as error:  # whatever a game or a policy of the user's raises
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
        """Take messages one by one; a page cannot pile up work, since the next one is read when this one is done."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            if self._too_many():
                await self._socket.close(TOO_MUCH, f"over {MOST_MESSAGES} messages a second")
                return
            text = message.get("text")
            if text is None:
                await self._socket.close(BAD_DATA, "text messages only")
                return
            self._presence.begin_command(time.monotonic())
            await self._obey(session, text)
            self._presence.end_command(time.monotonic())

    async def _watch(self) -> None:
        """Dismiss a page that leaves a picture unconfirmed for too long, or whose seat is needed."""
        limit = self._limits.silent_seconds
        while self._presence.silent(time.monotonic()) < limit:
            with contextlib.suppress(TimeoutError):
                raise _DismissedError(await asyncio.wait_for(asyncio.shield(self._dismissal), limit / 4))
        raise _DismissedError(f"no picture confirmed for {limit:g} seconds: reload to play")

    async def _close(self, code: int, reason: str) -> None:
        """Tell the page why, and close its socket, unless it has gone meanwhile or does not read."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._tell(Note(reason))
                await self._socket.close(code, reason.encode()[:LONGEST_REASON].decode(errors="ignore"))

    async def _obey(self, session: Session, text: str) -> None:
        if self._confirmed(text):
            return
        try:
            command = parse(text)
        except UserError as error:
            await self._tell(Note(f"not understood: {error}"))
            return
        if command.name == "hold":
            await self._tell(command.perform(session))
            self._keys.set()
            return
        await self._tell(await self._in_thread(command.perform, session))
        if command.name == "switch":
            await self._greet(session)
        self._news.set()
        self._keys.set()

    def _confirmed(self, text: str) -> bool:
        """Return whether a message only says which picture was shown: "#12"."""
        if not (text.startswith("#") and text[1:].isascii() and text[1:].isdigit() and len(text) < 16):
            return False
        self._presence.confirm(int(text[1:]), time.monotonic())
        if self._presence.room:
            self._room.set()
        return True

    async def _play(self, session: Session) -> None:
        """Let decisions pass at the session's pace.

        A key that changes in the second half of a wait is acted upon at once, and the next decision stays where it
        was: half a wait of delay at most, at the same number of decisions a second.
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
            self._news.set()
            due = max(due + period, time.monotonic())

    async def _send(self, session: Session) -> None:
        """Send the newest picture whenever there is one and the page has room for it."""
        self._news.set()
        self._room.set()
        while True:
            await self._news.wait()
            await self._room.wait()
            self._news.clear()
            message = await self._in_thread(self._stream.encode, session, self._presence.sent + 1)
            self._presence.send(time.monotonic())
            if not self._presence.room:
                self._room.clear()
            await self._socket.send_bytes(message)

    async def _greet(self, session: Session) -> None:
        await self._socket.send_text(json.dumps({"welcome": welcome(session)}))

    async def _tell(self, reply: Reply) -> None:
        if isinstance(reply, Note):
            await self._socket.send_text(json.dumps({"note": reply.text}))
        elif isinstance(reply, Grid):
            await self._socket.send_bytes(grid_message(reply))
        elif isinstance(reply, Video):
            await self._socket.send_bytes(video_message(reply))

    def _too_many(self) -> bool:
        second = int(time.monotonic())
        self._second, self._messages = second, self._messages + 1 if second == self._second else 1
        return self._messages > MOST_MESSAGES

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)


def _step(session: Session) -> None:
    """Let a decision pass, unless the player has paused while it was on its way."""
    if not session.paused:
        session.step()


async def _until_first(main: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run until one of several loops ends, then end the others; raise what it raised, unless `main` just ended."""
    tasks = [asyncio.create_task(loop) for loop in (main, *others)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in [tasks[0]] if tasks[0] in done else done:
        task.result()
