"""Pieces of HTML: everything that comes from outside is escaped, every picture is inside the page."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from html import escape as escape_markup
from typing import Any

from acvp.console import TextTable, visible

MEDIA_TYPES = {"png": "image/png", "svg": "image/svg+xml", "gif": "image/gif", "mp4": "video/mp4"}

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c1c1c;--faint:#5f6368;--line:#dcdfe3;--card:#f5f6f8;--accent:#0062a3}
@media(prefers-color-scheme:dark){:root{--paper:#131417;--ink:#e8e8e8;--faint:#a0a4aa;--line:#33363c;--card:#1b1d21;
--accent:#6cb6f0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.25rem;margin:2.2rem 0 .6rem;
border-bottom:1px solid var(--line);padding-bottom:.2rem}h3{font-size:1rem;margin:1.2rem 0 .4rem}
p,.note{margin:.4rem 0;max-width:46rem}.note,figcaption,small{color:var(--faint);font-size:.85rem}
.conclusion{font-weight:600}
nav a{margin-right:1rem;color:var(--accent);text-decoration:none;white-space:nowrap}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;margin:1rem 0}
.card{background:var(--card);border-radius:.5rem;padding:.7rem .9rem}.card b{display:block;font-size:1.35rem}
.card span{color:var(--faint);font-size:.82rem}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(28rem,100%),1fr));gap:1rem}
figure{margin:0;background:var(--card);border-radius:.5rem;padding:.5rem;overflow-x:auto}
figure.wide{margin:.8rem 0;width:fit-content;max-width:100%}
img,video{max-width:100%;height:auto;display:block;border-radius:.3rem}
img.pixels{image-rendering:pixelated;max-width:none}
figure.strip{max-height:40rem;overflow:auto;display:inline-block;max-width:100%}
.scroll{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.text{overflow-wrap:anywhere}details{margin:.6rem 0}summary{cursor:pointer;color:var(--accent)}
code,pre{font:.82rem/1.45 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;background:var(--card);padding:.6rem;border-radius:.4rem}
"""


def escape(text: str) -> str:
    """Return a text that is no markup, with control characters written out."""
    return escape_markup(visible(text))


def page(title: str, sections: Iterable[str]) -> str:
    """Return a whole page."""
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with an anchor."""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def heading(words: str, level: int = 3) -> str:
    """Return a heading."""
    return f"<h{level}>{escape(words)}</h{level}>"


def text(words: str, kind: str = "p") -> str:
    """Return a paragraph; kind note makes it quiet."""
    return f"<p>{escape(words)}</p>" if kind == "p" else f'<p class="{escape(kind)}">{escape(words)}</p>'


def data_uri(data: bytes, kind: str) -> str:
    """Return a file as an address that holds the file itself."""
    return f"data:{MEDIA_TYPES[kind]};base64,{base64.b64encode(data).decode()}"


def themed_image(light: bytes, dark: bytes, alternative: str) -> str:
    """Return an SVG that follows the reader's choice of light or dark."""
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{data_uri(dark, "svg")}">'
        f'<img src="{data_uri(light, "svg")}" alt="{escape(alternative)}" loading="lazy"></picture>'
    )


def image(data: bytes, kind: str, alternative: str, css: str = "") -> str:
    """Return a picture."""
    return f'<img class="{escape(css)}" src="{data_uri(data, kind)}" alt="{escape(alternative)}" loading="lazy">'


def video(data: bytes, alternative: str) -> str:
    """Return a video that plays when it is asked to, in a loop."""
    return (
        f'<video controls loop muted playsinline preload="metadata" aria-label="{escape(alternative)}" '
        f'src="{data_uri(data, "mp4")}"></video>'
    )


def figure(content: str, caption: str = "", css: str = "") -> str:
    """Return a figure with a caption."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="{escape(css)}">{content}{below}</figure>'


def cards(values: Sequence[tuple[str, str]]) -> str:
    """Return large numbers with what they are."""
    inner = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for value, what in values
    )
    return f'<div class="cards">{inner}</div>'


def table(data: TextTable) -> str:
    """Return a table that scrolls sideways on a narrow screen."""
    heads = "".join(f"<th>{escape(head)}</th>" for head in data.heads)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in data.rows)
    caption = f"<caption>{escape(data.title)}</caption>"
    return f'<div class="scroll"><table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def facts(values: Mapping[str, Any]) -> str:
    """Return names and values below each other."""
    rows = "".join(
        f'<tr><th>{escape(str(name))}</th><td class="text">{escape(str(value))}</td></tr>'
        for name, value in values.items()
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def folded(summary: str, content: str) -> str:
    """Return something to unfold."""
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def source(words: str) -> str:
    """Return text as it stands in a file."""
    return "<pre>" + "\n".join(map(escape, words.split("\n"))) + "</pre>"
