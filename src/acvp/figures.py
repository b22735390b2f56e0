"""Pictures that every package draws: the one look of charts, frames enlarged without blur with text around, and videos.

Charts are matplotlib figures, pictures are arrays (H, W, 3). Pixels are enlarged by an even number and placed on even
coordinates, so that every chroma sample of a 4:2:0 video, which all players take, belongs to one pixel of the game:
one-pixel sprites keep their color. Videos are H.264, for browsers and phones, and GIF.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import cv2
import matplotlib
import numpy as np
from matplotlib.axes import Axes as Axes
from matplotlib.figure import Figure as Figure
from matplotlib.font_manager import findfont
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from acvp.console import visible
from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError, describe

# --- Charts -----------------------------------------------------------------------------------------------------------

Colors = dict[str, str]
RUN_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's: also color-blind readers can distinguish them."""
LIGHT = {"ink": "#1c1c1c", "faint": "#767676", "paper": "#ffffff"}
DARK = {"ink": "#e8e8e8", "faint": "#9a9a9a", "paper": "#1b1d21"}
UNNAMED = ("_child", "_container", "_nolegend_")
"""Beginnings of the names that matplotlib gives to what has none."""
SIZE, CAPTION_WIDTH = (5.2, 4.3), 96
"""Inches of a chart, and characters of a line of its caption."""

FPS = 15
"""Frames per second: real time at four emulator frames per agent step."""
CODEC: Final = "libx264"
QUALITY = "14"
"""Constant rate factor of the encoder; lower is better, 0 without loss."""
BT601 = 6
"""Number of the color space in the H.264 standard."""


def chart(colors: Colors, title: str, size: tuple[float, float] = SIZE) -> tuple[Figure, Axes]:
    """Return an empty figure and its only axes."""
    figure = Figure(figsize=size, facecolor=colors["paper"])
    axes = figure.add_subplot()
    axes.set_title(title, color=colors["ink"], fontsize=11, loc="left")
    return figure, axes


def style(axes: Axes, colors: Colors) -> None:
    """Give axes the quiet look that all charts share."""
    axes.set_facecolor(colors["paper"])
    axes.tick_params(colors=colors["ink"], labelsize=9)
    axes.grid(color=colors["faint"], alpha=0.25, linewidth=0.6)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(colors["faint"])


def legend_below(axes: Axes, colors: Colors, away: float = 0.2, *, columns: int = 2, size: float = 8) -> None:
    """Put the legend under the axes, where it hides no curve."""
    shown: list[Any] = [*axes.lines, *axes.containers]
    for curve in shown:
        name = str(curve.get_label())
        if name.startswith("_") and not name.startswith(UNNAMED):
            curve.set_label(f" {name}")  # matplotlib leaves out what begins with an underscore
    where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -away), "borderaxespad": 0.0}
    axes.legend(fontsize=size, frameon=False, labelcolor=colors["ink"], ncols=columns, **where)


def caption(figure: Figure, text: str, colors: Colors) -> None:
    """Put a caption under a figure, and make room for it."""
    lines = textwrap.wrap(text, CAPTION_WIDTH)
    height = figure.get_size_inches()[1] + 0.14 * len(lines)
    figure.set_size_inches(figure.get_size_inches()[0], height)
    room = (0.14 * len(lines) + 0.02) / height
    figure.text(0.02, 0.06 / height, "\n".join(lines), fontsize=7, color=colors["faint"], va="bottom", linespacing=1.25)
    with _as_given(figure):
        figure.tight_layout(rect=(0, room, 1, 1))


def image(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a png or svg file, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with _repeatable(), _as_given(figure):
        figure.savefig(buffer, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()


@contextmanager
def _as_given(figure: Figure) -> Iterator[None]:
    """Draw names of runs and actions as they are: $ begins no formula, and characters that a font lacks are boxes."""
    axes = [axis for plot in figure.axes for axis in (plot.xaxis, plot.yaxis)]
    logarithmic = [axis for axis in axes if isinstance(axis.get_minor_formatter(), LogFormatter)]
    formulas = {label for axis in logarithmic for label in axis.get_ticklabels(minor=True)}
    for text in {text for text in figure.findobj(Text) if isinstance(text, Text)} - formulas:
        text.set_parse_math(False)
        text.set_text("\n".join(map(visible, text.get_text().split("\n"))))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font", UserWarning)
        yield


@contextmanager
def _repeatable() -> Iterator[None]:
    with matplotlib.rc_context({"svg.hashsalt": "acvp", "svg.fonttype": "path"}):
        yield


def images(figure: Figure, name: str) -> dict[str, bytes]:
    """Return the PNG and the SVG file of a figure by file name."""
    return {f"{name}.{kind}": image(figure, kind) for kind in ("png", "svg")}


def write_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG."""
    write_files(folder, images(figure, name))


def write_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder by name."""
    make_folder(folder)
    for name, data in files.items():
        write_atomic(folder / name, data)


# --- Pictures ---------------------------------------------------------------------------------------------------------

Picture = NDArray[np.uint8]  # (H, W, 3)
Color = tuple[int, int, int]

INK, FAINT, PAPER = (240, 240, 240), (150, 150, 150), (24, 26, 30)
GIVEN, PREDICTED = (87, 204, 135), (157, 143, 251)
"""Border while real frames are given (green), and once the predictor continues from its own frames (violet).

The colors of the play page (--good and --dream of its dark theme)."""
TEXT_SIZE, LINE = 14, 20
"""Pixels; a line is even, so that enlarged pixels stay aligned with a video's chroma samples."""
VIDEO_HEIGHT, GIF_HEIGHT = 336, 168
"""Of a frame in a video, about, in pixels."""
BORDER, GAP = 4, 8
"""Pixels around and between the panels of a video."""


@cache
def font(size: int = TEXT_SIZE) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's own font."""
    return ImageFont.load_default(size)


@cache
def arrow_font(size: int) -> ImageFont.FreeTypeFont:
    """Return matplotlib's own font, which has arrows."""
    return ImageFont.truetype(findfont("DejaVu Sans"), size)


def in_color(frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return frames (..., H, W, C) with three channels."""
    return np.repeat(frames, 3, -1) if frames.shape[-1] == 1 else frames


def enlarge(picture: Picture, scale: int) -> Picture:
    """Return a picture with every pixel as a square."""
    return picture.repeat(scale, 0).repeat(scale, 1)


def even_scale(height: int, target: int) -> int:
    """Return the even number that enlarges a picture to about the target height, at least 2."""
    return max(2, 2 * round(target / height / 2))


def difference(first: Picture, second: Picture) -> Picture:
    """Return the doubled absolute difference of two pictures, clamped to 255."""
    apart: Picture = np.minimum(2 * np.abs(first.astype(np.int16) - second), 255).astype(np.uint8)
    return apart


def canvas(width: int, height: int, color: Color = PAPER) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return an empty picture of even size, and what draws on it."""
    empty = Image.new("RGB", (width + width % 2, height + height % 2), color)
    return empty, ImageDraw.Draw(empty)


def paste(drawing: Image.Image, picture: Picture, scale: int, corner: tuple[int, int]) -> None:
    """Put an enlarged picture on a canvas, its upper left pixel at the corner (x, y)."""
    drawing.paste(Image.fromarray(enlarge(picture, scale)), corner)


def fitted(text: str, width: int, size: int = TEXT_SIZE) -> str:
    """Return a text cut to a width in pixels."""
    if font(size).getlength(text) <= width:
        return text
    while text and font(size).getlength(f"{text}..") > width:
        text = text[:-1]
    return f"{text}.."


def side_by_side(panels: Sequence[tuple[str, Picture, Color]], text: str, scale: int) -> Picture:
    """Return one picture of a video: panels (name, picture, color of the border) in a row below a line of text."""
    height, width = (side * scale for side in panels[0][1].shape[:2])
    across = width + 2 * BORDER + GAP
    drawing, draw = canvas(len(panels) * across + GAP, 3 * LINE + height + 2 * BORDER)
    draw.text((GAP, 2), text, INK, font())
    for column, (name, picture, border) in enumerate(panels):
        left, top = GAP + column * across, 2 * LINE
        draw.text((left, LINE + 2), fitted(name, across - GAP), INK, font())
        draw.rectangle((left, top, left + width + 2 * BORDER - 1, top + height + 2 * BORDER - 1), border)
        paste(drawing, picture, scale, (left + BORDER, top + BORDER))
    return np.asarray(drawing)


def png(picture: Image.Image | Picture) -> bytes:
    """Return a canvas or a picture as the bytes of a PNG file."""
    buffer = io.BytesIO()
    drawn = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    drawn.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def require_encoder() -> None:
    """Raise UserError if this PyAV cannot write mp4."""
    import av

    if CODEC not in av.codecs_available:
        raise UserError(
            f"this PyAV was built without the H.264 encoder {CODEC}: install PyAV's own wheel (pip install "
            "--force-reinstall av)"
        )


def encode_mp4(images: Iterable[Picture]) -> bytes:
    """Return pictures of one even size as an H.264 video."""
    require_encoder()
    import av

    try:
        return _encode_mp4(images)
    except av.FFmpegError as error:
        raise UserError(
            f"the video cannot be encoded ({describe(error)}): free some memory, or ask for none"
        ) from error


def _encode_mp4(images: Iterable[Picture]) -> bytes:
    import av

    buffer, images = io.BytesIO(), iter(images)
    first = next(images)
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream(CODEC, rate=FPS)
        stream.options = {"crf": QUALITY, "preset": "medium", "threads": "1"}
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, FPS)
        stream.height, stream.width = first.shape[:2]
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = BT601
        for picture in chain([first], images):
            planes = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420).astype(np.uint8, copy=False)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def encode_gif(images: Iterable[Picture], comment: bytes = b"") -> bytes:
    """Return pictures of one size as a GIF that holds a comment."""
    buffer = io.BytesIO()
    first, *others = (Image.fromarray(image).quantize(256, dither=Image.Dither.NONE) for image in images)
    duration = round(100 / FPS) * 10  # ms; a GIF counts hundredths of a second
    options: dict[str, Any] = {"comment": comment} if comment else {}
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=duration, loop=0, optimize=False, **options)
    return buffer.getvalue()
