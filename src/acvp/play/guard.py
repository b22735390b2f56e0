"""Who may talk to the server: pages that it served itself, at its own address, on this machine."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

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
