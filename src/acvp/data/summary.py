"""What is in a store: the rows of a table, and a contact sheet to look at."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from acvp.data.store import EpisodeStore
from acvp.durable import write_atomic

SHEET_COLUMNS, SHEET_ROWS = 6, 4
CAPTION_HEIGHT = 14
TARGET_WIDTH = 160
"""Small frames are enlarged towards this width by a whole factor, so that pixels stay crisp."""


def describe(store: EpisodeStore) -> list[tuple[str, str]]:
    """(name, value) rows for people."""
    info, height, width = store.info, *store.info.frame_shape[:2]
    rewards = np.array([float(episode.rewards.sum()) for episode in store])
    lengths = np.array([len(episode) for episode in store])
    terminated = sum(episode.header.terminated for episode in store)
    plays = len({entry.opening for entry in store.entries})
    palette = store.palette
    rows = [
        ("game", f"{info.env_id}  {_settings(info.settings)}".strip()),
        ("frames", f"{store.frames:,} of {height}×{width}, {'RGB' if palette is None else f'{len(palette)} colours'}"),
        ("episodes", f"{len(store):,}: {terminated} terminated, {len(store) - terminated} cut off, {plays} different"),
        ("size", f"{store.size / 1e6:.2f} MB, {store.size / max(store.frames, 1):.0f} bytes a frame"),
        ("policy", f"{info.policy}, ε = {info.epsilon:g}, seed {info.seed}"),
        ("made with", ", ".join(f"{name} {version}" for name, version in info.versions.items()) or "unknown"),
        ("digest", store.digest),
    ]
    if len(store):
        rows[3:3] = [
            ("length", f"{lengths.min():,} to {lengths.max():,} frames, median {int(np.median(lengths)):,}"),
            ("reward", f"{rewards.mean():.2f} an episode on average, {rewards.min():g} to {rewards.max():g}"),
            ("actions", _action_shares(store)),
        ]
    return rows


def contact_sheet(store: EpisodeStore, path: Path) -> None:
    """A PNG of frames at even distances over the whole store, with episode and frame number under each."""
    total = store.frames
    places = np.linspace(0, total - 1, min(total, SHEET_COLUMNS * SHEET_ROWS)).astype(int)
    ends = np.cumsum([entry.frames for entry in store.entries])
    height, width, _ = store.info.frame_shape
    scale = max(1, TARGET_WIDTH // width)
    cell_w, cell_h = width * scale + 4, height * scale + CAPTION_HEIGHT + 4
    columns = min(SHEET_COLUMNS, len(places))
    sheet = Image.new("RGB", (cell_w * columns, cell_h * -(-len(places) // columns)), "white")
    draw = ImageDraw.Draw(sheet)
    for i, place in enumerate(places.tolist()):
        episode = int(np.searchsorted(ends, place, side="right"))
        frame = place - (int(ends[episode - 1]) if episode else 0)
        pixels = np.ascontiguousarray(store[episode].frames(frame, frame + 1)[0])
        x, y = i % columns * cell_w + 2, i // columns * cell_h + 2
        sheet.paste(Image.fromarray(pixels).resize((width * scale, height * scale), Image.Resampling.NEAREST), (x, y))
        draw.text((x, y + height * scale + 1), f"{store.entries[episode].number} / {frame}", fill="black")
    buffer = io.BytesIO()
    sheet.save(buffer, _image_format(path))
    write_atomic(path, buffer.getvalue())


def _image_format(path: Path) -> str:
    """Return the name by which Pillow knows the format of a file."""
    formats = Image.registered_extensions()
    if path.suffix.lower() not in formats:
        raise ValueError(f"unknown file extension {path.suffix!r}")
    return formats[path.suffix.lower()]


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


def _action_shares(store: EpisodeStore) -> str:
    counts: Counter[int] = Counter()
    for episode in store:
        counts.update(episode.actions.tolist())
    total = max(1, counts.total())
    names = store.info.action_meanings
    return ", ".join(f"{names[a]} {100 * counts[a] / total:.0f} %" for a in range(len(names)))
