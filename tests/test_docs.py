"""What the documentation says works: its links lead somewhere, its Python runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from acvp.data.collect import CollectConfig, collect

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_python_of_the_data_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    collect(CollectConfig(env_id="toy", out=Path("stores/freeway"), frames=1000))
    policy, reading, chunk = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(re.sub(r"^  ", "", policy, flags=re.MULTILINE), "policy", "exec"), names)  # noqa: S102
    assert names["always_up"](("NOOP", "UP"), None)(None) == 1  # type: ignore[operator]
    exec(compile(reading, "reading", "exec"), names)  # noqa: S102
    batch, store = names["batch"], names["store"]
    assert batch.frames.shape == (32, 5, 24, 24)  # type: ignore[attr-defined]
    episode = store[0]  # type: ignore[index]
    given = {"chunk": episode.chunks[0], "height": 24, "width": 24, "palette": episode.palette, "np": np}
    exec(compile(f"import numcodecs\n{chunk}", "chunk", "exec"), given)  # noqa: S102
    assert np.array_equal(given["rgb"], episode.frames(0, 16))
