from pathlib import Path

import numpy as np
from PIL import Image

from acvp.data.verify import contact_sheet, describe
from tests.data.answers import answer_store, read_answer


def test_the_table_counts_what_is_there(tmp_path: Path) -> None:
    rows = dict(describe(answer_store(tmp_path, [30, 50, 11], terminated=False)))
    assert rows["frames"] == "91 of 6×8, 2 colors"
    assert rows["episodes"] == "3: 0 terminated, 3 truncated, 3 different"
    assert rows["length"] == "11 to 50 frames, median 30"
    assert rows["actions"].startswith("NOOP 33 %, LEFT 3")


def test_an_empty_store_has_a_table_too(tmp_path: Path) -> None:
    assert dict(describe(answer_store(tmp_path, [])))["episodes"] == "0: 0 terminated, 0 truncated, 0 different"


def test_the_sheet_shows_frames_of_the_whole_store(tmp_path: Path) -> None:
    store = answer_store(tmp_path / "s", [30, 50])
    contact_sheet(store, tmp_path / "sheet.png")
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    scale = 160 // 8
    cell_h, cell_w = 6 * scale + 18, 8 * scale + 4
    shown = [
        read_answer(sheet[r * cell_h + 2 :, c * cell_w + 2 :][: 6 * scale : scale, : 8 * scale : scale])
        for r in range(4)
        for c in range(6)
    ]
    assert shown[0] == (0, 0)
    assert shown[-1] == (1, 49)
    assert shown == sorted(shown)
    assert len(set(shown)) == 24
