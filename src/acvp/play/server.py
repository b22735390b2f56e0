"""The thin shell: serves the page and one session a socket, on this machine only.

The files of the page, which come with the package.
"""

from __future__ import annotations

import asyncio
import mimetypes
import socket
import webbrowser
from collections.abc import Callable
from importlib.resources import files

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from acvp.errors import UserError
from acvp.play.connection import Connection
from acvp.play.limits import HEADERS, ClosingDeadline, Guard, Limits, OutOfFiles, http_protocol
from acvp.play.protocol import MAX_MESSAGE
from acvp.play.session import Session


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    return {file.name: file.read_bytes() for file in files("acvp.play").joinpath("page").iterdir() if file.is_file()}


HOST = "127.0.0.1"
PORTS_TRIED = 50
BUSY = 1013
"""WebSocket code: try again later."""


DEFAULT_LIMITS = Limits()


def make_app(
    make_session: Callable[[], Session], *, port: int, sessions: int, limits: Limits = DEFAULT_LIMITS
) -> ASGIApp:
    """Return the application: the page's files by name, and the socket, for so many sessions at once."""
    page = page_files()
    playing: set[Connection] = set()

    async def serve_file(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in page:
            return Response("not found\n", 404)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(page[name], media_type="text/javascript" if name.endswith(".js") else kind)

    def free_a_seat() -> bool:
        """Disconnect the page that has been idle the longest, if that is long enough."""
        idlest = max(playing, key=lambda connection: connection.idle_seconds)
        if idlest.idle_seconds < limits.idle_seconds:
            return False
        playing.discard(idlest)
        idlest.dismiss("paused for long, and another page needed the seat: reload to play")
        return True

    async def play(websocket: WebSocket) -> None:
        await websocket.accept()
        if len(playing) >= sessions and not free_a_seat():
            await websocket.close(BUSY, f"{sessions} pages play already (--sessions)")
            return
        connection = Connection(websocket, make_session, limits)
        playing.add(connection)
        try:
            await connection.run()
        finally:
            playing.discard(connection)

    routes = [Route("/", serve_file), Route("/{name}", serve_file), WebSocketRoute("/play", play)]
    return Guard(Starlette(routes=routes), port)


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


class PlayServer(uvicorn.Server):
    """uvicorn's server, which reports in one line that there are no more files, and continues."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until asked to stop."""
        asyncio.get_running_loop().set_exception_handler(OutOfFiles())
        await super().serve(sockets)


def make_server(app: ASGIApp, limits: Limits = DEFAULT_LIMITS) -> uvicorn.Server:
    """Return the server of an application; `run(sockets=[...])` runs it."""
    config = uvicorn.Config(
        app,
        http=http_protocol(limits),
        ws=ClosingDeadline,
        log_level="critical",  # errors of sessions are logged by Connection; what clients get wrong is not an error
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
    """Open a page in the user's browser; False where there is none, or only one that would take the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser and browser.open(address)
