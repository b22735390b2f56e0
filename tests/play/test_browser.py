"""The page in a real browser: what a player does and sees."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

from acvp.data.store import EpisodeStore
from acvp.play.session import Session
from tests.play.browsing import DESK, PHONE, View, a_browser
from tests.play.serving import serve, wait_until
from tests.play.sessions import player


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def address(toy_session_maker: Callable[[], Session]) -> Iterator[str]:
    with serve(toy_session_maker, sessions=20) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def view(browser: Browser, address: str) -> Iterator[View]:
    """A page that has shown its first prediction."""
    found = View(browser, address)
    wait_until(lambda: found.number("#steps p") >= 1)
    yield found
    assert found.complaints == []
    found.context.close()


def same_player(view: View) -> tuple[int, int]:
    """Return where the player is, which is the same in both worlds."""
    real, dream = player(view.picture("real")), player(view.picture("dream"))
    assert real == dream
    return real


def test_keys_move_the_object_in_both_worlds(view: View) -> None:
    view.pause()
    moved = []
    for key, (down, right) in {"ArrowLeft": (0, -1), "d": (0, 1), "s": (1, 0), "ArrowUp": (-1, 0)}.items():
        row, column = same_player(view)
        before = view.number("#steps p")
        view.page.keyboard.down(key)
        view.press("e")
        wait_until(lambda before=before: view.number("#steps p") == before + 1)  # type: ignore[misc]
        view.page.keyboard.up(key)
        now = same_player(view)
        assert now in {(row + down, column + right), (row, column)}
        moved.append(now != (row, column))
    assert moved[0] or moved[1]  # not both walls can be beside it
    assert moved[2] or moved[3]
    assert view.text("#dream figcaption span") == "up"


def test_a_held_key_moves_while_the_game_runs(view: View) -> None:
    view.page.keyboard.down("ArrowRight")
    view.until("#dream figcaption span", "right")
    view.page.keyboard.up("ArrowRight")
    view.until("#dream figcaption span", "noop")


def test_resync_brings_the_error_to_zero_and_the_difference_to_black(view: View) -> None:
    wait_until(lambda: view.number("#wrong p") > 0)
    view.pause()
    assert view.picture("difference").any()
    view.press("r")
    wait_until(lambda: (view.number("#steps p"), view.number("#wrong p")) == (0, 0))
    assert not view.picture("difference").any()
    assert np.array_equal(view.picture("real"), view.picture("dream"))


def test_the_difference_is_twice_the_distance(view: View) -> None:
    wait_until(lambda: view.number("#wrong p") > 0)
    view.pause()
    apart = np.abs(view.picture("real").astype(int) - view.picture("dream"))
    assert np.array_equal(view.picture("difference"), np.minimum(2 * apart, 255))


def test_rewinding_restores_both_worlds(view: View) -> None:
    view.pause()
    steps = view.number("#steps p")
    before = view.picture("real"), view.picture("dream")
    view.press("e", 5)  # an odd number: what bounces off a wall is not back where it was
    wait_until(lambda: view.number("#steps p") == steps + 5)
    assert not np.array_equal(view.picture("real"), before[0])
    view.press("Backspace", 5)
    wait_until(lambda: view.number("#steps p") == steps)
    assert np.array_equal(view.picture("real"), before[0])
    assert np.array_equal(view.picture("dream"), before[1])


def test_after_rewinding_the_game_resumes_by_itself(view: View) -> None:
    wait_until(lambda: view.number("#steps p") > 5)
    view.press("Backspace", 3)
    steps = view.number("#steps p")
    wait_until(lambda: view.number("#steps p") > steps + 5)


def test_all_actions_show_a_picture_each_and_the_game_waits(view: View) -> None:
    view.press("g")
    cells = view.page.locator("#grid section")
    wait_until(lambda: cells.count() == 5)
    assert [text.split("\n")[0] for text in cells.all_inner_texts()] == [
        "0 noop",
        "1 up",
        "2 down",
        "3 left",
        "4 right",
    ]
    assert view.page.locator("#grid canvas").count() == 10, "dream and real of each"
    view.until("#rate", "paused")
    view.page.locator("#ahead").press("ArrowRight")
    view.until("#every output", "2 steps")
    view.press("Escape")
    view.until("#rate", "fps")


def test_switching_predictors(view: View) -> None:
    view.page.locator("#predictor").select_option("gray")
    wait_until(lambda: view.picture("dream").shape == (84, 84, 3))
    assert view.picture("real").shape == (84, 84, 3)
    assert "none predicted" in view.text("#reward")
    view.press("p")
    wait_until(lambda: view.page.locator("#predictor").input_value() == "copy-last-frame")
    wait_until(lambda: view.number("#steps p") > 3)
    view.press("p")
    wait_until(lambda: view.page.locator("#predictor").input_value() == "still")


@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_a_clip_downloads_and_decodes(view: View, tmp_path: Path, kind: str) -> None:
    view.page.locator("#kind").select_option(kind)
    view.press("c")
    view.until("[data-do=clip]", "Save")
    steps = view.number("#steps p")
    wait_until(lambda: view.number("#steps p") > steps + 3)
    with view.page.expect_download() as waiting:
        view.press("c")
    assert waiting.value.suggested_filename == f"acvp-still.{kind}"
    waiting.value.save_as(tmp_path / "clip")
    data = (tmp_path / "clip").read_bytes()
    if kind == "gif":
        assert Image.open(io.BytesIO(data)).n_frames > 2  # type: ignore[attr-defined]
        return
    with av.open(io.BytesIO(data), "r") as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(pictures) > 2
    assert pictures[-1].std() > 10


def test_scrubbing_and_taking_over(view: View, toy: EpisodeStore) -> None:
    view.pause()
    view.press("]", 3)
    view.until("#place", "frame 3")
    assert np.array_equal(view.picture("real"), toy[0].frames(3, 4)[0])
    view.press("[")
    view.until("#place", "frame 2")
    view.press("}")
    view.until("#place", "frame 0")
    assert view.page.locator("#episode").input_value() == "1"
    view.page.locator("#frame").fill("7")
    view.until("#place", "frame 7")
    assert np.array_equal(view.picture("dream"), toy[1].frames(7, 8)[0])
    view.press("Escape")
    view.until("[data-do=driver]", "Take over")
    view.press("m")
    view.until("[data-do=driver]", "Watch agent")
    view.press("e")
    wait_until(lambda: view.number("#steps p") == 1)


def test_the_slider_begins_a_replay_and_the_keyboard_keeps_it(view: View, toy: EpisodeStore) -> None:
    view.until("#place", "drag to replay")
    view.pause()
    view.page.locator("#frame").focus()
    for frame in (1, 2, 3):
        view.press("ArrowRight")
        view.until("#place", f"frame {frame} of {toy.entries[0].frames - 1}")
    assert np.array_equal(view.picture("real"), toy[0].frames(3, 4)[0])
    view.press("Escape")
    view.press("Enter")
    view.until("#place", "drag to replay")


def open_all_actions(view: View) -> None:
    """Ask for all actions until they are shown: right after a reset the predictor has too few real frames."""
    shown, refusal = view.page.locator("#every"), "real frames first"
    while not shown.is_visible():
        view.page.evaluate("document.querySelector('#toast').textContent = ''")
        view.press("g")
        wait_until(lambda: shown.is_visible() or refusal in view.text("#toast"))


def test_the_mouse_leaves_the_keys_to_the_game(view: View) -> None:
    view.page.locator("[data-do=theme]").click()
    view.page.locator("[data-do=help]").click()
    view.press("Escape")
    view.press("Enter")
    assert not view.page.locator("#help").is_visible()
    open_all_actions(view)
    view.press("Backspace")
    view.until("#rate", "paused")
    view.press("Escape")
    view.until("#rate", "fps")


def test_two_keys_of_one_move_and_caps_lock(view: View) -> None:
    for key in ("ArrowRight", "d"):
        view.page.keyboard.down(key)
    view.until("#dream figcaption span", "right")
    view.page.keyboard.up("d")
    view.page.wait_for_timeout(300)
    assert view.text("#dream figcaption span") == "right"
    view.page.keyboard.up("ArrowRight")
    view.until("#dream figcaption span", "noop")
    view.page.evaluate("dispatchEvent(new KeyboardEvent('keydown', { key: 'M', code: 'KeyM' }))")
    view.until("[data-do=driver]", "Play yourself")


@pytest.mark.load
def test_the_rate_falls_where_nothing_comes(view: View) -> None:
    view.until("#rate", "of 15 fps")
    view.press("-", 9)
    view.until("#rate", "of 1 fps")
    wait_until(lambda: float(view.text("#rate").split()[0]) < 3)


@pytest.mark.load
def test_an_agent_plays_and_hands_back(view: View) -> None:
    view.press("m")
    view.until("[data-do=driver]", "Play yourself")
    wait_until(lambda: view.text("#dream figcaption span") not in {"", "noop"})
    assert view.text("#real span") == "the agent plays (sticky-random)", "the game has none of its own"
    view.press("m")
    view.until("[data-do=driver]", "Watch agent")
    view.until("#real span", "you play")


@pytest.mark.load
def test_reset_starts_a_new_game(view: View) -> None:
    wait_until(lambda: view.number("#steps p") > 40)
    before = view.number("#steps p")
    view.press("Enter")
    wait_until(lambda: view.number("#steps p") < before)


@pytest.mark.load
def test_speed_and_the_true_rate(view: View) -> None:
    view.press("+")
    view.until("#rate", "of 20 fps")
    view.press("-", 2)
    view.until("#rate", "of 10 fps")


def test_help_is_a_key_away_and_the_keys_come_back(view: View) -> None:
    view.press("?")
    assert view.page.locator("#help").is_visible()
    view.press("Escape")
    assert not view.page.locator("#help").is_visible()
    view.pause()


def test_every_control_can_be_reached_by_tab(view: View) -> None:
    view.pause()
    reached = set()
    for _ in range(20):
        view.press("Tab")
        reached.add(view.page.evaluate("document.activeElement.dataset.do ?? document.activeElement.id"))
    assert {"predictor", "fps", "reset", "pause", "step", "resync", "rewind", "every", "driver", "clip"} <= reached


def test_everything_fits_at_1280_by_720(view: View) -> None:
    assert view.page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]") == [
        720,
        1280,
    ]
    for selector in ("#tools", "#metrics", "#real canvas", "#difference canvas", "header"):
        box = view.page.locator(selector).bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= DESK["height"]
    canvas = view.page.locator("#dream canvas").bounding_box()
    assert canvas is not None
    assert canvas["width"] % 24 == 0, "every pixel of the game is the same number of pixels"
    assert canvas["width"] >= 300


def test_light_and_dark(browser: Browser, address: str) -> None:
    papers = []
    for scheme in ("light", "dark"):
        view = View(browser, address, color_scheme=scheme)
        color = "getComputedStyle(document.body).backgroundColor"
        papers.append(view.page.evaluate(color))
        view.press("t")
        papers.append(view.page.evaluate(color))
        view.context.close()
    assert papers[0] == papers[3] != papers[1] == papers[2]


def test_a_phone_has_keys_to_touch(browser: Browser, address: str) -> None:
    view = View(browser, address, viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=2)
    wait_until(lambda: view.number("#steps p") >= 1)
    right = view.page.locator("#touch button[aria-label=right]")
    right.dispatch_event("pointerdown")
    wait_until(lambda: player(view.picture("real"))[1] == 10)
    right.dispatch_event("pointerup")
    view.page.locator("[data-do=pause]").tap()
    view.until("[data-do=pause]", "Resume")
    assert same_player(view)[1] == 10
    for selector in ("#real canvas", "#dream canvas", "#touch", "#tools"):  # the rest follows when one scrolls
        box = view.page.locator(selector).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
        assert box["y"] + box["height"] <= PHONE["height"]
    assert view.complaints == []
    view.context.close()


def test_a_gamepad_plays(browser: Browser, address: str) -> None:
    view = View(browser, address)
    wait_until(lambda: view.number("#steps p") >= 1)
    view.page.evaluate(
        """() => {
          const buttons = Array.from({ length: 16 }, (_, index) => ({ pressed: index === 13 }));
          navigator.getGamepads = () => [{ buttons, axes: [0, 0] }];
          dispatchEvent(new Event("gamepadconnected"));
        }"""
    )
    view.until("#dream figcaption span", "down")
    view.context.close()


def test_a_server_that_goes_is_noticed(browser: Browser, toy_session_maker: Callable[[], Session]) -> None:
    with serve(toy_session_maker) as port:
        view = View(browser, f"http://127.0.0.1:{port}/")
        wait_until(lambda: view.number("#steps p") >= 1)
    view.until("#toast", "Not connected")
    view.context.close()


def test_a_phone_held_across_shows_its_keys(browser: Browser, address: str) -> None:
    view = View(browser, address, viewport={"width": 844, "height": 390}, has_touch=True, is_mobile=True)
    wait_until(lambda: view.number("#steps p") >= 1)
    for selector in ("#touch button[aria-label=down]", "#dream canvas", "[data-do=reset]", "#rate"):
        box = view.page.locator(selector).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 390
        assert box["x"] + box["width"] <= 844
    view.context.close()
