"""The exported gallery in a browser: every width, light and dark; on the GPU where there is one, otherwise without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from acvp.errors import UserError
from acvp.play.static_page import RUNTIME_FOLDER, runtime_files
from tests.play.browsing import View, chromium
from tests.play.screens import CARDS, check_accessible, check_layout, widths_and_schemes
from tests.play.serving import wait_until
from tests.play.test_layout import PARTS, TEXTS
from tests.play.test_static_page import exported, host

pytestmark = pytest.mark.slow
MOST = 25e6
"""Bytes of a file, which static hosts limit."""
SOFTWARE_GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")


@pytest.fixture(scope="module")
def folder(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two exported predictors."""
    try:
        runtime_files()
    except UserError as error:
        pytest.skip(f"the gallery is not tested: {error}")
    return exported(tmp_path_factory.mktemp("screens"), "tiny", "other")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    yield from host(folder)


def opened(browser: Browser, address: str, script: str = "", **options: object) -> View:
    """A page that has reloaded itself once, to have threads; a script runs before its own."""
    view = View(browser, "about:blank", **options)
    if script:
        view.page.add_init_script(script)
    view.page.goto(address)
    view.page.wait_for_function("crossOriginIsolated")
    return view


def test_no_file_is_too_large_for_a_static_host(folder: Path) -> None:
    assert max(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MOST
    listed = json.loads((folder / "games.json").read_text())["runtime"]
    assert listed == {path.name: path.stat().st_size for path in (folder / RUNTIME_FOLDER).iterdir()}


@pytest.mark.parametrize("touch", [False, True])
def test_the_gallery_fits_and_is_accessible_in_every_width(
    browser: Browser, address: str, axe: str, touch: bool
) -> None:
    view = opened(browser, address, has_touch=touch)
    view.page.evaluate(axe)
    wait_until(lambda: view.page.locator("#cards .loop :is(img, canvas)").count() == 2)
    for _ in widths_and_schemes(view):
        check_layout(view, CARDS)
        check_accessible(view)
    view.page.locator("#cards button").first.click()
    wait_until(lambda: view.number("#steps p") >= 1)
    for _ in widths_and_schemes(view):
        check_layout(view, PARTS, TEXTS)
        check_accessible(view)
    assert view.complaints == []
    view.context.close()


def plays(view: View) -> tuple[str | None, list[str]]:
    """Play, and return what became of the GPU and the runtimes that were loaded."""
    view.page.locator("#cards button").first.click()
    wait_until(lambda: view.number("#steps p") >= 3)
    loaded = view.page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    runtimes = [name.rsplit("/", 1)[1] for name in loaded if name.endswith(".wasm")]
    return view.page.locator("body").get_attribute("data-gpu"), runtimes


@pytest.mark.parametrize(
    "gpu",
    [
        "undefined",
        "{ requestAdapter: async () => null }",
        "{ requestAdapter: async () => { throw new Error('no driver'); } }",
    ],
)
def test_without_a_gpu_the_smaller_runtime_plays(browser: Browser, address: str, gpu: str) -> None:
    view = opened(browser, address, f"Object.defineProperty(navigator, 'gpu', {{ value: {gpu} }})")
    assert plays(view) == ("none", ["ort-wasm-simd-threaded.wasm"])
    assert view.complaints == []
    view.context.close()


def test_a_browser_that_cannot_wait_for_the_gpu_uses_the_smaller_runtime(browser: Browser, address: str) -> None:
    script = """delete WebAssembly.Suspending;
      Object.defineProperty(navigator, "gpu", { value: { requestAdapter: async () => ({}) } })"""
    view = opened(browser, address, script)
    assert plays(view) == ("none", ["ort-wasm-simd-threaded.wasm"])
    view.context.close()


def test_a_gpu_that_does_not_work_is_replaced_by_the_processor(browser: Browser, address: str) -> None:
    script = "Object.defineProperty(navigator, 'gpu', { value: { requestAdapter: async () => ({}) } })"
    view = opened(browser, address, script)
    assert plays(view) == ("fails", ["ort-wasm-simd-threaded.jspi.wasm"])
    view.context.close()


def test_a_gpu_gives_the_same_frames(browser: Browser, address: str) -> None:
    """A GPU in software, which is here to be slow."""
    with_gpu = browser.browser_type.launch(executable_path=chromium(), args=["--no-sandbox", *SOFTWARE_GPU])
    view = opened(with_gpu, address)
    if not view.page.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
        pytest.skip("this chromium has no WebGPU in software")
    gpu, runtimes = plays(view)
    assert gpu in ("used", "slower"), "it neither fails nor differs"
    assert runtimes == ["ort-wasm-simd-threaded.jspi.wasm"]
    with_gpu.close()
