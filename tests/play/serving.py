"""A play server in a thread, and a client that reads what a page reads."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from websockets.sync.client import connect
from websockets.typing import Origin

from acvp.play.app import make_app
from acvp.play.connection import Limits
from acvp.play.server import free_socket, make_server
from acvp.play.session import Session
from tests.faults import PATIENCE


@contextmanager
def serve(
    make_session: Callable[..., Session],
    sessions: int = 4,
    limits: Limits = Limits(),  # noqa: B008
    **options: Any,
) -> Iterator[int]:
    """Serve sessions and yield the port."""
    listener = free_socket(18710)
    port = int(listener.getsockname()[1])
    server = make_server(make_app(make_session, port=port, sessions=sessions, limits=limits, **options), limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive())
        assert server.started
        yield port
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


def wait_until(true: Callable[[], object]) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


class Frames:
    """Reads one world's frames as the page does."""

    def __init__(self) -> None:
        self.values = np.zeros(0, np.uint8)
        self.palette = np.zeros((0, 3), np.uint8)

    def read(self, header: dict[str, Any], data: bytes) -> NDArray[np.uint8]:
        """Return a frame (h, w, C)."""
        if header.get("whole"):
            self.values = np.zeros(len(data), np.uint8)
        if "palette" in header:
            self.palette = np.frombuffer(bytes.fromhex(header["palette"]), np.uint8).reshape(-1, 3)
        self.values = self.values ^ np.frombuffer(data, np.uint8)
        values = self.values.reshape(*header["size"], -1)
        frame: NDArray[np.uint8] = self.palette[values[..., 0]] if header["form"] == "palette" else values
        return frame


def unpack(message: bytes) -> tuple[int, dict[str, Any], bytes]:
    """Return kind, header and payload of a binary message."""
    kind, length = struct.unpack_from("<BI", message)
    return kind, json.loads(message[5 : 5 + length]), message[5 + length :]


class Client:
    """A page without a browser."""

    def __init__(self, port: int, query: str = "") -> None:
        origin = Origin(f"http://127.0.0.1:{port}")
        self.socket = connect(f"ws://127.0.0.1:{port}/play{query}", origin=origin, open_timeout=PATIENCE).__enter__()
        self.streams = {"real": Frames(), "imagined": Frames()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, do: str, /, **fields: object) -> None:
        self.socket.send(json.dumps({"do": do} | fields))

    def confirm(self, number: int) -> None:
        self.socket.send(f"#{number}")

    def text(self, key: str) -> Any:
        """Return the next text message that has a key; pictures on the way are confirmed."""
        while True:
            message = self.socket.recv(PATIENCE)
            if isinstance(message, bytes):
                kind, header, _ = unpack(message)
                if kind == 1:
                    self.confirm(header["picture"])
            elif key in json.loads(message):
                return json.loads(message)[key]

    def binary(self, wanted: int) -> tuple[dict[str, Any], bytes]:
        """Return header and payload of the next binary message of a kind; pictures on the way are confirmed."""
        while True:
            message = self.socket.recv(PATIENCE)
            if isinstance(message, bytes):
                kind, header, payload = unpack(message)
                if kind == 1:
                    self.confirm(header["picture"])
                if kind == wanted:
                    return header, payload

    def picture(self, *, confirm: bool = True) -> tuple[dict[str, Any], dict[str, NDArray[np.uint8]]]:
        """Return the next picture: its facts, and the frames by world."""
        while True:
            message = self.socket.recv(PATIENCE)
            if isinstance(message, bytes):
                kind, header, payload = unpack(message)
                if kind == 1:
                    break
        frames: dict[str, NDArray[np.uint8]] = {}
        for name in ("real", "imagined"):
            if name in header:
                size = int(np.prod(header[name]["size"])) * (3 if header[name]["form"] == "rgb" else 1)
                frames[name] = self.streams[name].read(header[name], payload[:size])
                payload = payload[size:]
        assert not payload
        if confirm:
            self.confirm(header["picture"])
        return header, frames

    def until(self, true: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the facts of the first picture of which something is true."""
        end = time.monotonic() + PATIENCE
        while True:
            header, _ = self.picture()
            if true(header):
                return header
            assert time.monotonic() < end, header
