"""What `make docs` does beyond mkdocs: links of a page to files outside docs/ lead to copies of them on the site.

Pages in Markdown and source files become pages, a folder becomes a page that lists its files, all others are copied.
Lists and tables are written as GitHub reads them, and changed into what mkdocs reads.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\(|src=\")(?!https?:|mailto:|data:|#)([^)#\"\s]+)")
CODE = {".py": "python", ".ipynb": "json", ".yml": "yaml", ".toml": "toml", ".sh": "sh", "": ""}
"""Kinds of files that are shown with highlighted syntax, by the end of their name; none has none."""
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n"
"""Begins pages that the search leaves out: source code and lists of files."""
BLOCK = re.compile(r"(- |\* |\d+\. |\|)")
"""How a line of a list or table begins."""
COPIES = "repository"
"""Folder of the site with what is outside docs/."""


def place(path: Path) -> str:
    """Return where a file or folder of the repository is on the site, as a path below docs/."""
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    copy = f"{COPIES}/{path.relative_to(ROOT).as_posix()}"
    if path.is_dir():
        return f"{copy}/index.md"
    return f"{copy}.md" if path.suffix in CODE else copy


def targets(text: str, folder: Path) -> list[Path]:
    """Return the files of the repository that a text in this folder links to; mkdocs reports missing ones."""
    linked = {(folder / link).resolve() for _, link in LINK.findall(text)}
    return sorted(path for path in linked if path.exists() and path.is_relative_to(ROOT))


def listing(folder: Path) -> str:
    """Return a page with links to the files below a folder."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if published(path))
    lines = [f"- [{name}]({name})" for name in files]
    return UNSEARCHED + "\n".join([f"# {folder.relative_to(ROOT).as_posix()}/", "", *lines, ""])


def published(path: Path) -> bool:
    """Return whether a path below a linked folder is a file to show."""
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".safetensors"


def page(path: Path) -> str | None:
    """Return the Markdown of a file or folder that is shown as a page."""
    if path.is_dir():
        return listing(path)
    if path.suffix == ".md":
        return path.read_text()
    if path.suffix == ".ipynb":
        return notebook(json.loads(path.read_text()), path.stem)
    if path.suffix in CODE:
        return (
            f"{UNSEARCHED}# {path.relative_to(ROOT).as_posix()}\n\n````{CODE[path.suffix]}\n{path.read_text()}\n````\n"
        )
    return None


def notebook(body: dict[str, Any], name: str) -> str:
    """Return the cells of a notebook and their outputs."""
    parts = []
    for cell in body["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![{name}](data:image/png;base64,{data['image/png']})")
            else:
                parts.append("```text\n" + "".join(output.get("text") or data["text/plain"]).rstrip() + "\n```")
    return "\n\n".join(parts) + "\n"


def home(uri: str) -> Path:
    """Return the folder that the links of a page are relative to."""
    if not uri.startswith(f"{COPIES}/"):
        return (DOCS / uri).parent
    original = ROOT / uri.removeprefix(f"{COPIES}/")
    return original.parent


def on_files(files: Files, config: Any) -> Files:
    """Add everything outside docs/ that a page links to, and what those pages link to."""
    waiting = [(path.read_text(), path.parent) for path in sorted(DOCS.rglob("*.md"))]
    done: set[Path] = set()
    while waiting:
        for path in targets(*waiting.pop()):
            if path in done or path.is_relative_to(DOCS):
                continue
            done.add(path)
            text = page(path)
            if text is None:
                files.append(File.generated(config, place(path), abs_src_path=str(path)))
            else:
                files.append(File.generated(config, place(path), content=text))
                if path.is_dir() or path.suffix in (".md", ".ipynb"):
                    waiting.append((text, path if path.is_dir() else path.parent))
    return files


def with_blank_lines(markdown: str) -> str:
    """Return a text with empty lines around lists, tables and code in lists, whose lines are indented by four."""
    lines: list[str] = []
    fenced = listed = has_code = False
    for line in markdown.splitlines():
        begins, fence = not fenced and BLOCK.match(line), line.lstrip().startswith("```")
        if begins and (has_code or not listed) and lines and lines[-1] and not BLOCK.match(lines[-1]):
            lines.append("")
        listed = bool(begins and line[0] != "|") or (listed and (not line or line.startswith("  ")))
        has_code = listed and (has_code or fence)
        inside = f"  {line}" if listed and line.startswith("  ") else line
        lines += ["", inside] if fence and listed and not fenced else [inside]
        fenced ^= fence
        if fence and listed and not fenced:
            lines.append("")
    return "\n".join(lines) + "\n"


def on_page_markdown(markdown: str, page: Any, **kwargs: Any) -> str:
    """Point the links of a page to the copies."""
    uri = page.file.src_uri
    folder = home(uri)

    def moved(match: re.Match[str]) -> str:
        path = (folder / match[2]).resolve()
        if not path.exists() or not path.is_relative_to(ROOT):
            return match[0]
        return match[1] + posixpath.relpath(place(path), posixpath.dirname(uri))

    is_code = uri.startswith(f"{COPIES}/") and Path(uri).with_suffix("").suffix in set(CODE) - {"", ".ipynb"}
    return markdown if is_code else with_blank_lines(LINK.sub(moved, markdown))
