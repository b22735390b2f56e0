"""`acvp play`: a server on this machine that serves the page and runs one session per socket.

uvicorn has no time limit for a request that never ends, nor for a closed
socket whose client does not read; both are added here.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from acvp.errors import UserError
from acvp.play.app import DEFAULT_LIMITS, HOST, Loops, make_app, session_maker
from acvp.play.config import PlayConfig
from acvp.play.connection import OUT_OF_FILES, Limits, is_out_of_files
from acvp.play.model_pool import make_model_pool
from acvp.play.protocol import MAX_MESSAGE

PORTS_TRIED = 50
CLOSING_SECONDS = 12.0
"""From the end of a session to the end of its socket, whether or not the client reads; uvicorn itself waits 10."""
HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

log = logging.getLogger("acvp.play")


def play(config: PlayConfig, report: Callable[[str], None]) -> None:
    """Serve the page until interrupted; a wrong configuration raises UserError before anything is served."""
    try:
        _serve(config, report)
    except OSError as error:
        if is_out_of_files(error):
            raise UserError(OUT_OF_FILES) from error
        raise


def _serve(config: PlayConfig, report: Callable[[str], None]) -> None:
    models = make_model_pool(config.predictors, temperature=config.temperature, seed=config.seed)
    make_session = session_maker(config, models)
    session_maker(
        replace(config, fast_forward=False), models
    )().close()  # so that a mistake shows here, not in the page
    listener = free_socket(config.port)
    port = listener.getsockname()[1]
    if port != config.port:
        report(f"port {config.port} is taken")
    address = f"http://{HOST}:{port}/"
    report(f"playing at {address} (ctrl-C ends it)")
    loops = Loops(models, config.seed)
    app = make_app(make_session, port=port, sessions=config.sessions, loops=loops, choose=not config.predictors)
    server = make_server(app)
    if config.browser and not open_page(address):
        report("no browser found here: open the address yourself")
    try:
        server.run(sockets=[listener])
    finally:
        loops.close()


def free_socket(port: int) -> socket.socket:
    """Return a listening socket on a port or the next free one after it."""
    for candidate in range(port, min(port + PORTS_TRIED, 65536)):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, candidate))
            listener.listen(64)
        except PermissionError as error:
            listener.close()
            raise UserError(f"port {candidate}: {error.strerror}; choose another --port, above 1023") from error
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise UserError(f"ports {port} to {port + PORTS_TRIED - 1} are all taken: choose another --port")


class OutOfFilesHandler:
    """Logs once that no more files can be opened; asyncio itself logs a hundred tracebacks per second."""

    def __init__(self) -> None:
        self._reported = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of the event loop, which accepts connections again a second later."""
        if is_out_of_files(context.get("exception")):
            if not self._reported:
                log.error(OUT_OF_FILES)
            self._reported = True
        elif not (self._reported and "_start_serving" in context["message"]):  # that retry fails if the loop has ended
            loop.default_exception_handler(context)


class PlayServer(uvicorn.Server):
    """uvicorn's server, which continues when no more files can be opened and logs that in one line."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        asyncio.get_running_loop().set_exception_handler(OutOfFilesHandler())
        await super().startup(sockets)


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
    """uvicorn's WebSocket protocol, with a time limit for the closing handshake."""

    async def run_asgi(self) -> None:
        """Run the session, then abort the socket if it does not close in time."""
        await super().run_asgi()
        self.loop.call_later(CLOSING_SECONDS, self.transport.abort)


def make_server(app: ASGIApp, limits: Limits = DEFAULT_LIMITS) -> uvicorn.Server:
    """Return the server of an application; `run(sockets=[...])` runs it."""
    config = uvicorn.Config(
        app,
        http=http_protocol(limits),
        ws=ClosingDeadline,
        log_level="critical",  # Connection logs errors of sessions; mistakes of clients are not errors
        access_log=False,
        headers=[(name.decode(), value.decode()) for name, value in HEADERS],
        server_header=False,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=10.0,
        ws_ping_timeout=20.0,
        timeout_graceful_shutdown=2,
        lifespan="off",
    )
    return PlayServer(config)


def open_page(address: str) -> bool:
    """Open a page in the user's browser; return False if there is none, or only one that would take the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser and browser.open(address)
