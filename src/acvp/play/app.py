"""The web application of `acvp play`: the files of the page, loops for its start page, and a session for each socket.

Only pages that it served itself may connect.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from importlib.resources import files
from pathlib import Path

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from acvp.artifacts import WEIGHTS_NAME
from acvp.console import counted
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.figures import Picture, encode_gif, in_color
from acvp.loaded import COPY_LAST
from acvp.play.config import PlayConfig
from acvp.play.connection import Connection, Limits, share_cores
from acvp.play.history import AutoResync
from acvp.play.model_pool import ModelPool, make_model_pool
from acvp.play.players import Players
from acvp.play.recording import PlayRecorder
from acvp.play.session import Session

HOST = "127.0.0.1"
HOST_NAMES = (HOST, "localhost", "[::1]")
BUSY = 1013
"""WebSocket close code: try again later."""
LOOP_NAME = "loop.gif"
LOOP_STEPS = 45
"""Agent steps of a loop: three seconds of Atari."""
GAP = 4
"""Pixels between real and dream."""
DEFAULT_LIMITS = Limits()


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


class Loops:
    """The loop of each predictor of a pool."""

    def __init__(self, models: ModelPool, seed: int = 0) -> None:
        self.names = tuple(name for name in models.names if name != COPY_LAST)
        self.listed = [{"name": name, "game": models.game_of(name)} for name in self.names]
        self._models, self._seed = models, seed
        self._made: dict[str, Future[bytes]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="acvp-loops", initializer=share_cores)

    def get(self, name: str) -> bytes | None:
        """Return a loop as a GIF, None while it is being made; UserError if there is none."""
        if name not in self.names:
            raise UserError(f"no predictor is called {name[:80]!r}")
        if name not in self._made:
            self._made[name] = self._thread.submit(self._make, name)
        made = self._made[name]
        return made.result() if made.done() else None

    def close(self) -> None:
        """Drop the loops that are waiting."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _make(self, name: str) -> bytes:
        folder = self._models.folders.get(name)
        return (folder and packaged_loop(folder)) or make_loop(self._models, name, self._seed)


def make_loop(
    models: ModelPool, name: str, seed: int, store: EpisodeStore | None = None, comment: bytes = b""
) -> bytes:
    """Return a loop of real | dream of a predictor as a GIF; without its game, of a dream from recorded frames."""
    session = Session(models, first=name, seed=seed, fast_forward=True, store=store)
    try:
        return encode_gif(list(_pictures(session)), comment)
    finally:
        session.close()


def packaged_loop(folder: Path) -> bytes | None:
    """Return the loop in the folder of a packaged predictor, None if there is none of the weights in it."""
    file = folder / LOOP_NAME
    loop = file.read_bytes() if file.is_file() else b""
    return loop if weights_digest(folder) in loop else None


def weights_digest(folder: Path) -> bytes:
    """Return what the comment of a packaged predictor's loop says: of which weights it is."""
    return hashlib.sha256((folder / WEIGHTS_NAME).read_bytes()).hexdigest().encode()


def _pictures(session: Session) -> Iterator[Picture]:
    session.change_driver()
    for _ in range(LOOP_STEPS):
        session.step()
        real, imagined = session.state.real, session.state.imagined.frame
        yield in_color(imagined) if real is None else side_by_side(in_color(real), in_color(imagined))


def side_by_side(left: Picture, right: Picture) -> Picture:
    """Return two pictures (H, W, 3) beside each other, with a black gap."""
    gap = np.zeros((left.shape[0], GAP, 3), np.uint8)
    return np.concatenate([left, gap, right], axis=1)


def page_files(choose: bool = False) -> dict[str, bytes]:
    """Return the files of the page by name; ``choose``: it starts with all games."""
    folder = files("acvp.play").joinpath("page")
    page = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    if choose:
        page["index.html"] = page["index.html"].replace(b'data-start="play"', b'data-start="choose"')
    return page


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
    page, slots = Page(loops, choose), Slots(make_session, sessions, limits)
    routes = [
        Route("/", page.file),
        Route("/loops", page.loop_names),
        Route("/loops/{name}", page.loop),
        Route("/{name}", page.file),
        WebSocketRoute("/play", slots.play),
    ]
    return OriginCheck(Starlette(routes=routes), port)


class Page:
    """Serves the files of the page and the loops of its start page."""

    def __init__(self, loops: Loops | None, choose: bool) -> None:
        self._files, self._loops = page_files(choose), loops

    async def file(self, request: Request) -> Response:
        """Return a file, 404 if there is none."""
        name = request.path_params.get("name", "index.html")
        if name not in self._files:
            return Response("not found\n", 404)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(self._files[name], media_type="text/javascript" if name.endswith(".js") else kind)

    async def loop_names(self, request: Request) -> Response:
        """Return the names of all loops and their games."""
        return JSONResponse([] if self._loops is None else self._loops.listed)

    async def loop(self, request: Request) -> Response:
        """Return a loop, 202 while it is being made, 404 if there is none."""
        try:
            loop = None if self._loops is None else self._loops.get(request.path_params["name"])
        except UserError as error:
            return PlainTextResponse(f"{error}\n", 404)
        return Response(status_code=202) if loop is None else Response(loop, media_type="image/gif")


class Slots:
    """Gives each page that connects a session, up to a number of them."""

    def __init__(self, make_session: Callable[..., Session], sessions: int, limits: Limits) -> None:
        self._make_session, self._sessions, self._limits = make_session, sessions, limits
        self._connections: set[Connection] = set()

    async def play(self, websocket: WebSocket) -> None:
        """Play with a page until it leaves; without a free slot it is disconnected."""
        await websocket.accept()
        if len(self._connections) >= self._sessions and not self._free_one():
            await websocket.close(BUSY, f"{counted(self._sessions, 'page')} can play at a time (--sessions)")
            return
        name = websocket.query_params.get("predictor")
        make_session = partial(self._make_session, name) if name else self._make_session
        connection = Connection(websocket, make_session, self._limits)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def _free_one(self) -> bool:
        """Disconnect the page that has been idle the longest, if that is long enough."""
        idlest = max(self._connections, key=lambda connection: connection.idle_seconds)
        if idlest.idle_seconds < self._limits.idle_seconds:
            return False
        self._connections.discard(idlest)
        idlest.disconnect("paused for long, and another page needed the slot: reload to play")
        return True


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
