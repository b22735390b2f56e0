"""Clients that keep the server waiting, and a server without files."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from acvp.errors import UserError
from acvp.play.config import PlayConfig
from acvp.play.connection import IN_FLIGHT, OUT_OF_FILES, Limits, PageActivity
from acvp.play.server import OutOfFilesHandler, play
from acvp.play.session import Session
from tests.faults import PATIENCE
from tests.play.serving import Client, serve, wait_until
from tests.play.test_server import get, handshake

pytestmark = pytest.mark.load

SOON = 0.2
"""Seconds: a limit that is over soon, whatever the machine."""
NEVER = 3600.0


@pytest.fixture(scope="module")
def hasty(toy_session_maker: Callable[[], Session]) -> Iterator[int]:
    """A server that waits for requests only shortly."""
    with serve(toy_session_maker, limits=Limits(request_seconds=SOON)) as port:
        yield port


def ends(connection: socket.socket) -> bytes:
    """Return what the server still sends before it ends a connection."""
    seen = b""
    try:
        while part := connection.recv(4096):
            seen += part
    except ConnectionResetError:
        pass
    return seen


@pytest.mark.parametrize(
    "request_text",
    [
        "",
        "G",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Slow: ",
        "POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 100\r\n\r\nhalf",
        "GET /play HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\nConnection: Upgrade\r\n",
    ],
)
def test_a_request_that_is_never_finished_is_dropped(hasty: int, request_text: str) -> None:
    with socket.create_connection(("127.0.0.1", hasty), timeout=PATIENCE) as connection:
        connection.sendall(request_text.format(port=hasty).encode())
        ends(connection)


def test_a_second_request_that_is_never_finished_is_dropped(hasty: int) -> None:
    with socket.create_connection(("127.0.0.1", hasty), timeout=PATIENCE) as connection:
        connection.sendall(f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{hasty}\r\n\r\n".encode())
        seen = b""
        while b"not found" not in seen:
            seen += connection.recv(4096)
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET / HT")
        assert ends(connection) == b""


def test_an_upgraded_socket_outlives_the_time_limit_of_requests(toy_session_maker: Callable[[], Session]) -> None:
    with serve(toy_session_maker, limits=Limits(request_seconds=SOON)) as port, Client(port) as page:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as silent:
            ends(silent)  # the limit has passed for one that connected later
        assert page.until(lambda facts: facts["agent_steps"] > 1)


def test_a_page_that_confirms_nothing_loses_its_slot(toy_session_maker: Callable[[], Session]) -> None:
    with serve(toy_session_maker, sessions=1, limits=Limits(silent_seconds=SOON)) as port:
        for _ in range(3):
            with Client(port) as silent, pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
                while True:
                    silent.socket.recv(PATIENCE)
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, "confirmed" in closed.value.rcvd.reason) == (1008, True)


def test_a_socket_that_never_reads_loses_its_slot(toy_session_maker: Callable[[], Session]) -> None:
    with (
        serve(toy_session_maker, sessions=1, limits=Limits(silent_seconds=SOON)) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as silent,
    ):
        silent.sendall(handshake(port, Origin=f"http://127.0.0.1:{port}"))
        assert silent.recv(12) == b"HTTP/1.1 101"
        wait_until(lambda: enters(port))


def enters(port: int) -> bool:
    """Return whether a new page finds a slot."""
    with Client(port) as page:
        try:
            return bool(page.text("welcome"))
        except ConnectionClosed:
            return False


def test_an_idle_page_loses_its_slot_only_to_another_page(toy_session_maker: Callable[[], Session]) -> None:
    with serve(toy_session_maker, sessions=1, limits=Limits(idle_seconds=SOON)) as port, Client(port) as idle:
        idle.send("pause", on=True)
        idle.until(lambda facts: facts["paused"])
        wait_until(lambda: enters(port))
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
            while True:
                idle.socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, "another page" in closed.value.rcvd.reason) == (1008, True)


def test_a_page_that_is_not_idle_for_long_keeps_its_slot(toy_session_maker: Callable[[], Session]) -> None:
    with serve(toy_session_maker, sessions=1, limits=Limits(idle_seconds=NEVER)) as port, Client(port) as first:
        first.send("pause", on=True)
        first.until(lambda facts: facts["paused"])
        assert not enters(port)
        first.send("pause", on=False)
        first.until(lambda facts: not facts["paused"])


def test_silence_is_counted_while_a_picture_is_unconfirmed() -> None:
    page = PageActivity(0.0)
    assert (page.silent(50.0), page.idle(50.0)) == (0.0, 0.0), "the session is still being made"
    page.end_command(50.0)
    assert (page.silent(60.0), page.idle(60.0)) == (0.0, 10.0), "nothing to confirm"
    page.send(60.0)
    page.send(61.0)
    assert page.silent(70.0) == 10.0, "since the first of the two"
    page.confirm(1, 70.0)
    assert page.silent(75.0) == 5.0, "the second one"
    page.confirm(1, 76.0)
    page.confirm(0, 76.0)
    assert page.silent(80.0) == 10.0, "the same number again confirms nothing"
    page.confirm(10**9, 80.0)
    assert (page.silent(90.0), page.shown) == (0.0, 2)


def test_a_page_is_not_silent_while_the_server_handles_its_command() -> None:
    page = PageActivity(0.0)
    page.end_command(0.0)
    page.send(10.0)
    page.begin_command(20.0)
    assert (page.silent(90.0), page.idle(90.0)) == (0.0, 0.0)
    page.end_command(90.0)
    assert (page.silent(95.0), page.idle(95.0)) == (15.0, 5.0), "10 seconds before the command and 5 after it"


def test_room_for_pictures() -> None:
    page = PageActivity(0.0)
    for _ in range(IN_FLIGHT):
        assert page.room
        page.send(0.0)
    assert not page.room
    page.confirm(1, 0.0)
    assert page.room


CHILD = """
import os, resource, sys
from acvp.play.server import free_socket, make_server
from acvp.play.app import make_app
from acvp.play.connection import Limits
from tests.play.sessions import make_session

listener = free_socket(18750)
port = listener.getsockname()[1]
make_session().close()
limits = Limits(request_seconds=3600.0)
server = make_server(make_app(make_session, port=port, sessions=4, limits=limits), limits)
used = max(int(name) for name in os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (used + 16, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
print(port, flush=True)
server.run(sockets=[listener])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
def test_a_server_out_of_files_logs_one_line_and_continues(tmp_path: Path) -> None:
    log = tmp_path / "err"
    with (
        log.open("w") as errors,
        subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            sockets = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(30)]
            wait_until(lambda: OUT_OF_FILES in log.read_text())
            for each in sockets:
                each.close()
            assert get(port, "/")[0] == 200
        finally:
            server.terminate()
    lines = log.read_text().splitlines()
    assert "Traceback (most recent call last):" not in lines
    assert lines.count(OUT_OF_FILES) == 1


def test_other_errors_of_the_event_loop_are_still_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        handler = OutOfFilesHandler()
        for error in (ValueError("odd"), OSError(24, "Too many"), OSError(23, "Too many")):
            handler(asyncio.get_running_loop(), {"message": "it failed", "exception": error})

    asyncio.run(fail())
    assert [record.getMessage() for record in caplog.records if record.name == "acvp.play"] == [OUT_OF_FILES]
    assert any("it failed" in record.getMessage() for record in caplog.records)


def test_no_file_left_to_listen_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(port: int) -> socket.socket:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("acvp.play.server.free_socket", none_left)
    monkeypatch.setattr("acvp.play.server.session_maker", lambda config, models: lambda: Client.__new__(Client))
    monkeypatch.setattr(Client, "close", lambda self: None, raising=False)
    with pytest.raises(UserError, match="ulimit"):
        play(PlayConfig(browser=False), print)
