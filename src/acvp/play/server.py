"""`acvp play`: a server on this machine that serves the page and runs one session per socket.

Only pages that it served itself may connect. uvicorn has no time limit for a request that never ends, nor for a closed
socket whose client does not read; both are added here.
"""

from __future__ import annotations

import asyncio
import logging
import mimetypes
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.play.config import PlayConfig
from acvp.play.connection import OUT_OF_FILES, Connection, Limits, is_out_of_files
from acvp.play.loops import Loops
from acvp.play.model_pool import ModelPool, make_model_pool
from acvp.play.players import Players
from acvp.play.protocol import MAX_MESSAGE
from acvp.play.recorder import PlayRecorder
from acvp.play.resync import AutoResync
from acvp.play.session import Session

HOST = "127.0.0.1"
HOST_NAMES = (HOST, "localhost", "[::1]")
PORTS_TRIED = 50
BUSY = 1013
"""WebSocket close code: try again later."""
CLOSING_SECONDS = 12.0
"""From the end of a session to the end of its socket, whether or not the client reads; uvicorn itself waits 10."""
HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
DEFAULT_LIMITS = Limits()

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


def session_maker(config: PlayConfig, pool: ModelPool | None = None) -> Callable[..., Session]:
    """Return a function that makes a new session, of the predictor of a name or the first one; all share a pool."""
    models = pool or make_model_pool(config.predictors, temperature=config.temperature, seed=config.seed)
    players = Players(config.policy)
    store = None if config.data is None else EpisodeStore(config.data)
    recorder = None if config.record is None else PlayRecorder(config.record)

    def make(first: str | None = None) -> Session:
        return Session(
            models,
            first=first,
            store=store,
            players=players,
            fps=config.fps,
            seed=config.seed,
            rewind_bytes=config.rewind_mb * 10**6,
            auto_resync=AutoResync.parse(config.auto_resync),
            fast_forward=config.fast_forward,
            recorder=recorder,
        )

    return make


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    return {file.name: file.read_bytes() for file in files("acvp.play").joinpath("page").iterdir() if file.is_file()}


def make_app(
    make_session: Callable[..., Session],
    *,
    port: int,
    sessions: int,
    limits: Limits = DEFAULT_LIMITS,
    loops: Loops | None = None,
    choose: bool = False,
) -> ASGIApp:
    """Return the application: the page's files by name, and the socket, for this many sessions at once.

    ``loops`` are those of the start page, on which the page opens if ``choose`` is true.
    """
    page = page_files()
    if choose:
        page["index.html"] = page["index.html"].replace(b'data-start="play"', b'data-start="choose"')
    connections: set[Connection] = set()

    async def serve_names(request: Request) -> Response:
        return JSONResponse([] if loops is None else list(loops.names))

    async def serve_loop(request: Request) -> Response:
        """Return a loop, 202 while it is being made, 404 if there is none."""
        try:
            loop = None if loops is None else loops.get(request.path_params["name"])
        except UserError as error:
            return PlainTextResponse(f"{error}\n", 404)
        return Response(status_code=202) if loop is None else Response(loop, media_type="image/gif")

    async def serve_file(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in page:
            return Response("not found\n", 404)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(page[name], media_type="text/javascript" if name.endswith(".js") else kind)

    def free_slot() -> bool:
        """Disconnect the page that has been idle the longest, if that is long enough."""
        idlest = max(connections, key=lambda connection: connection.idle_seconds)
        if idlest.idle_seconds < limits.idle_seconds:
            return False
        connections.discard(idlest)
        idlest.disconnect("paused for long, and another page needed the slot: reload to play")
        return True

    async def play_session(websocket: WebSocket) -> None:
        await websocket.accept()
        if len(connections) >= sessions and not free_slot():
            await websocket.close(BUSY, f"{sessions} pages play already (--sessions)")
            return
        name = websocket.query_params.get("predictor")
        connection = Connection(websocket, partial(make_session, name) if name else make_session, limits)
        connections.add(connection)
        try:
            await connection.run()
        finally:
            connections.discard(connection)

    routes = [
        Route("/", serve_file),
        Route("/loops", serve_names),
        Route("/loops/{name}", serve_loop),
        Route("/{name}", serve_file),
        WebSocketRoute("/play", play_session),
    ]
    return OriginCheck(Starlette(routes=routes), port)


class OriginCheck:
    """Refuses foreign Host and Origin headers before anything else sees the request.

    The Host check stops foreign names that resolve to this machine (DNS rebinding), the Origin check stops pages of
    other sites. Both apply to the socket before it is accepted, since browsers do not restrict sockets themselves.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._hosts = {f"{host}:{port}".encode() for host in HOST_NAMES}
        self._origins = {b"http://" + host for host in self._hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests of our own page, refuse all others."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif not self._is_own(scope):
            await _refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_own(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        own_host = len(hosts) == 1 and hosts[0] in self._hosts
        if scope["type"] == "websocket":
            return own_host and origins == [b"http://" + hosts[0]]
        return own_host and all(origin in self._origins for origin in origins)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # the handshake
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    await PlainTextResponse("acvp play answers only its own page on this machine\n", 403)(scope, receive, send)


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

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until asked to stop."""
        asyncio.get_running_loop().set_exception_handler(OutOfFilesHandler())
        await super().serve(sockets)


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
