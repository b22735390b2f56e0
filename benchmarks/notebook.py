"""python -m benchmarks.notebook: runs the cells of examples/tour.ipynb and writes what they show into it.

A notebook is JSON; its cells are plain Python here, so no kernel is needed. Text that a cell prints and the value of
its last line are kept: a picture as PNG, anything else as text.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

TOUR = Path(__file__).parent.parent / "examples" / "tour.ipynb"


def read(path: Path = TOUR) -> dict[str, Any]:
    """Return a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    return notebook


def source(cell: dict[str, Any]) -> str:
    """Return the text of a cell."""
    return "".join(cell["source"])


def run_cell(text: str, names: dict[str, Any]) -> tuple[str, Any]:
    """Run the Python of a cell; return what it prints and the value of its last line, None if that is no expression."""
    *before, last = ast.parse(text).body
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if isinstance(last, ast.Expr):
            exec(compile(ast.Module(before, []), "<cell>", "exec"), names)  # noqa: S102
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
        else:
            exec(compile(text, "<cell>", "exec"), names)  # noqa: S102
            value = None
    return printed.getvalue(), value


def outputs(printed: str, value: Any, count: int) -> list[dict[str, Any]]:
    """Return the outputs of a cell in the format of notebooks."""
    shown: list[dict[str, Any]] = []
    if printed:
        shown.append({"output_type": "stream", "name": "stdout", "text": printed.splitlines(keepends=True)})
    if value is not None:
        data: dict[str, Any] = {"text/plain": [repr(value)]}
        if isinstance(value, Image.Image):
            buffer = io.BytesIO()
            value.save(buffer, "PNG", optimize=True)
            data = {"image/png": base64.b64encode(buffer.getvalue()).decode(), "text/plain": ["a picture"]}
        shown.append({"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data})
    return shown


def main() -> None:
    """Run the notebook in a temporary folder and write it with its outputs."""
    notebook, names, count = read(), {"__name__": "__main__"}, 0
    back = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                cell["outputs"] = outputs(*run_cell(source(cell), names), count)
                cell["execution_count"] = count
        os.chdir(back)
    TOUR.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    print(f"{TOUR.name}: {count} cells, {TOUR.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
