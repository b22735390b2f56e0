"""The server as clients meet it, good and bad ones."""

from __future__ import annotations

import gc
import http.client
import json
import socket
import struct
import threading
import weakref
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest
from websockets.exceptions import ConnectionClosed

from acvp.errors import UserError
from acvp.play.app import page_files
from acvp.play.connection import IN_FLIGHT
from acvp.play.protocol import MAX_MESSAGE
from acvp.play.server import free_socket, open_page
from acvp.play.session import Session
from tests.faults import PATIENCE, Trials, counted
from tests.play.serving import Client, serve, wait_until
from tests.play.sessions import UP, player

pytestmark = pytest.mark.load


@pytest.fixture(scope="module")
def port(toy_session_maker: Callable[[], Session]) -> Iterator[int]:
    with serve(toy_session_maker, sessions=8) as found:
        yield found


def get(port: int, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """Ask for a page with exactly these headers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in ({"Host": f"127.0.0.1:{port}"} | headers).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    found = response.status, response.read(), {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    return found


def test_the_page_and_its_files_are_served(port: int) -> None:
    status, body, headers = get(port, "/")
    assert (status, body) == (200, page_files()["index.html"])
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    for name, wanted in page_files().items():
        status, body, headers = get(port, f"/{name}")
        assert (status, body) == (200, wanted)
        assert not name.endswith(".js") or headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "path",
    ["/../server.py", "/..%2fserver.py", "/%2e%2e/server.py", "/etc/passwd", "//etc/passwd", "/page/index.html", "/x"],
)
def test_no_path_of_a_client_leads_to_a_file(port: int, path: str) -> None:
    assert get(port, path)[0] == 404


def foreign_hosts(port: int) -> list[str]:
    return [
        "evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1.evil.example:{port}",
        f"localhost.evil.example:{port}", f"evil-localhost:{port}", f"127.0.0.2:{port}", f"0.0.0.0:{port}",
        f"[::]:{port}", f"[::ffff:127.0.0.1]:{port}",
        f"LOCALHOST.:{port}", f"localhost:0{port}", f"127.1:{port}", f"2130706433:{port}", f"0x7f.0.0.1:{port}",
        f"user@127.0.0.1:{port}", f"127.0.0.1:{port}@evil.example", f"127.0.0.1:{port}.evil.example", "",
    ]  # fmt: skip


def foreign_origins(port: int) -> list[str]:
    hosts = [host for host in foreign_hosts(port) if host]
    others = [
        "null", "", f"https://127.0.0.1:{port}", "http://127.0.0.1", "file://", f"ws://127.0.0.1:{port}",
        f"http://localhost:{port}",
        f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}, http://evil.example", "https://evil.example",
        f"HTTP://127.0.0.1:{port}",
    ]  # fmt: skip
    return [*others, *(f"http://{host}" for host in hosts)]


def handshake(port: int, **headers: str) -> bytes:
    """Return a page's request for a socket, with some headers changed."""
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    lines = {"Host": f"127.0.0.1:{port}", "Sec-WebSocket-Key": "A" * 22 + "=="} | upgrade | headers
    return ("GET /play HTTP/1.1\r\n" + "".join(f"{name}: {text}\r\n" for name, text in lines.items()) + "\r\n").encode()


def knock(port: int, **headers: str) -> int:
    """Ask for a socket with these headers and return the status; 101 is accepted."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(handshake(port, **headers))
        return int(connection.recv(64).split()[1])


def test_its_own_page_may_connect_by_any_of_its_names(port: int) -> None:
    for name in ("127.0.0.1", "localhost", "[::1]"):
        assert knock(port, Host=f"{name}:{port}", Origin=f"http://{name}:{port}") == 101


@counted("11 the play server refuses foreign hosts", quick=20, full=20)
def test_foreign_hosts_get_nothing(trials: Trials, port: int) -> None:
    def refuses(trial: int, rng: np.random.Generator) -> None:
        host = foreign_hosts(port)[trial]
        assert get(port, "/", Host=host)[0] in (400, 403), host
        assert knock(port, Host=host, Origin=f"http://{host}") in (400, 403), host

    trials.run(refuses)


@counted("11 the play server refuses foreign origins before it accepts a socket", quick=30, full=30)
def test_foreign_origins_are_refused_before_the_socket_is_accepted(trials: Trials, port: int) -> None:
    def refuses(trial: int, rng: np.random.Generator) -> None:
        origin = foreign_origins(port)[trial]
        assert knock(port, Origin=origin) == 403, origin

    trials.run(refuses)
    assert knock(port) == 403, "no origin"
    assert get(port, "/", Origin="http://evil.example")[0] == 403


def test_it_listens_on_this_machine_only() -> None:
    with free_socket(18800) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_taken_port_gives_the_next_one() -> None:
    with free_socket(18800) as first, free_socket(first.getsockname()[1]) as second:
        assert second.getsockname()[1] > first.getsockname()[1]


def test_no_port_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acvp.play.server.PORTS_TRIED", 1)
    with free_socket(18800) as first, pytest.raises(UserError, match="another --port"):
        free_socket(first.getsockname()[1])


def test_no_browser_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    def none(using: str | None = None) -> webbrowser.BaseBrowser:
        raise webbrowser.Error

    monkeypatch.setattr(webbrowser, "get", none)
    assert not open_page("http://127.0.0.1:1/")
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("lynx"))
    assert not open_page("http://127.0.0.1:1/"), "it would take the terminal"


def test_a_page_plays(port: int) -> None:
    with Client(port) as page:
        welcome = page.text("welcome")
        assert welcome["actions"] == ["NOOP", "UP", "DOWN", "LEFT", "RIGHT"]
        assert welcome["predictors"] == ["still", "net", "gray", "copy-last-frame"]
        page.until(lambda facts: facts["watching"] is None)
        page.send("hold", action=UP)
        page.until(lambda facts: facts["action"] == UP)
        header, frames = page.picture()
        assert player(frames["real"]) == player(frames["imagined"])
        page.send("pause", on=True)
        header = page.until(lambda facts: facts["paused"])
        assert header["steps"] > 0
        page.send("resync")
        while header["steps"] > 0:  # a picture from before may still be on its way
            header, frames = page.picture()
        assert header["wrong_pixels"] == 0
        assert np.array_equal(frames["real"], frames["imagined"])
        page.send("every_action", steps=1)
        assert page.binary(2)[0]["shape"] == [5, 24, 24, 3]
        page.send("switch", name="gray")
        assert page.text("welcome")["frame"] == [84, 84, 1]
        page.send("scrub", episode=99, frame=0)
        assert "episodes 0 to" in page.text("note")


def test_a_paused_page_stands_still_and_steps_one_by_one(port: int) -> None:
    with Client(port) as page:
        page.send("pause", on=True)
        number = page.until(lambda facts: facts["paused"])["agent_steps"]
        for _ in range(3):
            page.send("step")
            number += 1
            page.until(lambda facts, number=number: facts["agent_steps"] == number)  # type: ignore[misc]
        page.send("rewind")
        page.until(lambda facts: facts["agent_steps"] == number - 1)


def test_a_slow_reader_gets_the_newest_picture(port: int) -> None:
    with Client(port) as slow, Client(port) as quick:
        slow.send("fps", fps=60)
        last = [slow.picture(confirm=False)[0] for _ in range(IN_FLIGHT)][-1]
        skipped = 0
        while skipped <= 5:  # on a busy machine the game may need several such breaks to get ahead
            number = quick.picture()[0]["agent_steps"]
            quick.until(lambda facts, number=number: facts["agent_steps"] >= number + 10)  # type: ignore[misc]
            with pytest.raises(TimeoutError):
                slow.socket.recv(0)  # nothing more came meanwhile
            slow.confirm(last["picture"])
            first, *_, new_last = [slow.picture(confirm=False)[0] for _ in range(IN_FLIGHT)]
            skipped, last = first["agent_steps"] - last["agent_steps"], new_last


def test_a_picture_number_that_was_never_sent_helps_nobody(port: int) -> None:
    with Client(port) as page:
        page.confirm(10**14)
        page.text("welcome")
        for _ in range(IN_FLIGHT):
            page.picture(confirm=False)
        page.send("step")
        with pytest.raises(TimeoutError):
            page.socket.recv(0.5)


def test_more_pages_than_allowed_get_the_reason(toy_session_maker: Callable[[], Session]) -> None:
    with serve(toy_session_maker, sessions=1) as port, Client(port) as first:
        first.text("welcome")
        with Client(port) as second, pytest.raises(ConnectionClosed) as closed:
            second.socket.recv(PATIENCE)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, "1 page" in closed.value.rcvd.reason) == (1013, True)


class Watched:
    """Makes sessions and knows which are still open."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self.make, self.made, self.closed = make, 0, 0
        self.alive: weakref.WeakSet[Session] = weakref.WeakSet()

    def __call__(self) -> Session:
        session = self.make()
        close = session.close

        def closing() -> None:
            self.closed += 1
            close()

        self.made += 1
        self.alive.add(session)
        session.close = closing  # type: ignore[method-assign]
        return session


def vanish(port: int) -> None:
    """Connect, wait for the welcome, and break the connection without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(handshake(port, Origin=f"http://127.0.0.1:{port}"))
        seen = b""
        while b"welcome" not in seen:
            seen += connection.recv(4096)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


MANY = 100
"""Pages after which a leak of any size shows in the memory of the process."""


def playing() -> set[threading.Thread]:
    """Return the threads in which sessions play, those of other tests' servers too."""
    return {each for each in threading.enumerate() if each.name.startswith("acvp-play")}


@counted("13 pages that vanish leave nothing in the play server", quick=5, full=1000)
def test_a_client_that_vanishes_is_cleaned_up(trials: Trials, toy_session_maker: Callable[[], Session]) -> None:
    sessions, process, before = Watched(toy_session_maker), psutil.Process(), playing()
    memory: list[int] = []

    def vanishes(trial: int, rng: np.random.Generator) -> None:
        vanish(found)
        wait_until(lambda: sessions.closed == trial + 1)
        memory.append(process.memory_info().rss)

    with serve(sessions, sessions=1) as found:
        trials.run(vanishes)
        wait_until(lambda: not playing() - before)
        with Client(found) as page:
            page.text("welcome")
    wait_until(lambda: sessions.closed == sessions.made == trials.count + 1)
    gc.collect()  # a session and its `closing` hold each other
    assert not sessions.alive
    if trials.count >= MANY:  # a handful says nothing: the process has other memory to get and to give back
        assert memory[-1] - memory[len(memory) // 5] < 20e6


def test_the_page_gets_the_reason_why_a_session_failed(toy_session_maker: Callable[[], Session]) -> None:
    def broken() -> Session:
        raise UserError("this game is out of order")

    with serve(broken) as port, Client(port) as page:
        assert "out of order" in page.text("note")
        with pytest.raises(ConnectionClosed):
            page.socket.recv(PATIENCE)


def garbage(rng: np.random.Generator) -> str:
    """Return a message that no page sends, or nearly one."""
    names = ["hold", "step", "reset", "switch", "scrub", "fps", "pause", "rewind", "close", "__class__", ""]
    values: list[object] = [None, True, -1, 0, 3, 10**30, 1e308, "still", "x" * 300, [], {}, [[[]]], "\x00", "é"]
    value = values[rng.integers(len(values))]
    fields = rng.permutation(["action", "name", "episode", "frame", "fps", "on", "steps", "kind"])[: rng.integers(4)]
    text = json.dumps({"do": names[rng.integers(len(names))]} | dict.fromkeys(fields.tolist(), value))
    cut = text[: rng.integers(len(text))]
    return [text, text, cut, "[" * int(rng.integers(1, 900)), f"#{value}"[:900], "#"][rng.integers(6)]


@counted("12 the play server survives 100 fuzzed messages", quick=2, full=20)
def test_fuzzed_messages_hurt_nobody(trials: Trials, port: int, capfd: pytest.CaptureFixture[str]) -> None:
    def survives(trial: int, rng: np.random.Generator) -> None:
        with Client(port) as page:
            for _ in range(100):
                page.socket.send(garbage(rng))
            page.send("switch", name="nobody to be found")
            while "nobody to be found" not in page.text("note"):
                pass

    trials.run(survives)
    with Client(port) as page:
        page.until(lambda facts: facts["agent_steps"] > 3)
    assert "Traceback" not in capfd.readouterr().err


def closing_code(port: int, *messages: str | bytes) -> int | None:
    """Return the code with which the server ends a connection after these messages."""
    with Client(port) as page:
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
            for message in messages:
                page.socket.send(message)
            while True:
                page.socket.recv(PATIENCE)
        return closed.value.rcvd.code if closed.value.rcvd else None


def test_oversized_and_foreign_messages_end_the_connection(port: int) -> None:
    assert closing_code(port, "x" * (MAX_MESSAGE + 1)) == 1009
    assert closing_code(port, "x" * 10**6) == 1009
    assert closing_code(port, b"\x01\x02") == 1003


def test_a_flood_ends_the_connection_and_the_other_page_continues(
    port: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acvp.play.connection.MAX_MESSAGES", 50)  # in a second, which a busy machine manages too
    with Client(port) as other:
        before = other.until(lambda facts: facts["agent_steps"] > 1)["agent_steps"]
        assert closing_code(port, *['{"do":"hold","action":1}'] * 300) == 1008
        assert other.until(lambda facts: facts["agent_steps"] > before + 3)
    assert "Traceback" not in capfd.readouterr().err


def test_text_that_is_not_unicode_ends_the_connection_quietly(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    with Client(port) as page:
        page.text("welcome")
        frame = bytes([0x81, 0x82, 0, 0, 0, 0, 0xFF, 0xFE])  # masked text of two bytes that are no UTF-8
        page.socket.socket.sendall(frame)
        with pytest.raises(ConnectionClosed):  # noqa: PT012
            while True:
                page.socket.recv(PATIENCE)
    assert "Traceback" not in capfd.readouterr().err
