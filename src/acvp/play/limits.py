"""How long a client may keep the server waiting, and what the server reports when it runs out of files.

uvicorn has no time limit for a request that never ends, nor for a closed socket whose client does not read.

Who may talk to the server: pages that it served itself, at its own address, on this machine.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from dataclasses import dataclass
from typing import Any

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HOSTS = ("127.0.0.1", "localhost", "[::1]")

HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    """Refuses foreign Host and Origin headers before anything else sees the request.

    The Host check stops names that lead to this machine by trickery (DNS rebinding), the Origin check stops pages of
    other sites: both hold for the socket before it is accepted, where browsers ask nobody else.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{host}:{port}".encode() for host in HOSTS}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes from our own page, refuse the rest."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif not self._welcome(scope):
            await _refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _welcome(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        ours = len(hosts) == 1 and hosts[0] in self._hosts
        if scope["type"] == "websocket":
            return ours and origins == [b"http://" + hosts[0]]
        return ours and all(origin in self._origins for origin in origins)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # the handshake
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    await PlainTextResponse("acvp play answers only its own page on this machine\n", 403)(scope, receive, send)


OUT_OF_FILES = "too many open files: close some pages, or raise the limit with ulimit -n"
CLOSING_SECONDS = 12.0
"""From the end of a session to the end of its socket, whether or not the client reads; uvicorn itself waits 10."""

log = logging.getLogger("acvp.play")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds that the server waits for a client."""

    request_seconds: float = 10.0
    """From connecting, or from the last response, until the next request has come in whole and was answered."""
    silent_seconds: float = 30.0
    """A page that leaves a picture unconfirmed for this long is disconnected."""
    idle_seconds: float = 60.0
    """A paused page that has sent nothing for this long is disconnected when another page needs its seat."""


def is_out_of_files(error: object) -> bool:
    """Return whether an error says that no more files can be opened, by this process or on this machine."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class OutOfFiles:
    """Reports once that there are no more files; asyncio itself logs a hundred tracebacks a second."""

    def __init__(self) -> None:
        self._reported = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of the event loop, which accepts again a second later, or fails to if it ends before."""
        if is_out_of_files(context.get("exception")):
            if not self._reported:
                log.error(OUT_OF_FILES)
            self._reported = True
        elif not (self._reported and "_start_serving" in context["message"]):
            loop.default_exception_handler(context)


def http_protocol(limits: Limits) -> type[H11Protocol]:
    """Return uvicorn's HTTP protocol with a time limit for each request."""

    class RequestDeadline(H11Protocol):
        """Drops a connection whose request, or the reading of its response, takes too long."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._restart()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel()
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            self._restart()
            super().on_response_complete()

        def handle_websocket_upgrade(self, event: Any) -> None:
            self._cancel()
            super().handle_websocket_upgrade(event)

        def _restart(self) -> None:
            self._cancel()
            self._deadline = self.loop.call_later(limits.request_seconds, self.transport.abort)

        def _cancel(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()

    return RequestDeadline


class ClosingDeadline(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol; once the session is over, a client that does not read is not waited for."""

    async def run_asgi(self) -> None:
        """Run the session, then give the closing handshake its time."""
        await super().run_asgi()
        self.loop.call_later(CLOSING_SECONDS, self.transport.abort)
