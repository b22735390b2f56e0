"""Pictures for the page: one byte a pixel where possible, as differences to what the page already has.

A binary message is one byte of kind, four of the header's length (little-endian), the header as JSON, the payload.
The socket's own compression makes a few hundred bytes of a payload that is mostly zeros.

Shapes: h height, w width and C channels of the view, N colors.

What a page may ask for: small JSON messages, checked by name and type before a session sees them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.data.palette import PaletteEncoder, TooManyColorsError
from acvp.errors import UserError
from acvp.play.imagined import Seen
from acvp.play.rewind import Grid
from acvp.play.session import Session
from acvp.play.worlds import RecordedWorld

MAX_MESSAGE = 1024
"""Bytes of a message."""
LARGEST_NUMBER = 10**9
"""In a message; far beyond any frame, episode or rate."""


@dataclass(frozen=True)
class Note:
    """Something to tell the player."""

    text: str


@dataclass(frozen=True)
class Video:
    """A finished clip."""

    kind: str
    data: bytes


Reply = Note | Grid | Video | None


def _change_driver(session: Session) -> Reply:
    text = session.change_driver()
    return None if text is None else Note(text)


def _end_clip(session: Session, kind: str) -> Reply:
    return Video(kind, session.end_clip(kind))


COMMANDS: dict[str, tuple[Callable[..., Reply], dict[str, type]]] = {
    "hold": (Session.hold, {"action": int}),
    "step": (Session.step, {}),
    "reset": (Session.reset, {}),
    "reground": (Session.reground, {}),
    "rewind": (Session.rewind, {}),
    "every_action": (Session.every_action, {"steps": int}),
    "switch": (Session.switch, {"name": str}),
    "scrub": (Session.scrub, {"episode": int, "frame": int}),
    "change_driver": (_change_driver, {}),
    "pause": (Session.pause, {"on": bool}),
    "fps": (Session.set_fps, {"fps": float}),
    "record": (Session.record, {}),
    "end_clip": (_end_clip, {"kind": str}),
}
"""What each name does, and the fields it must have."""


@dataclass(frozen=True)
class Command:
    """A checked message."""

    name: str
    fields: dict[str, Any]

    def perform(self, session: Session) -> Reply:
        """Do it; a player's mistake becomes a note."""
        try:
            return COMMANDS[self.name][0](session, **self.fields)
        except UserError as error:
            return Note(str(error))


def parse(text: str) -> Command:
    """Return the command that a message asks for, `{"do": name, …}`; UserError for anything else."""
    if len(text.encode(errors="replace")) > MAX_MESSAGE:
        raise UserError(f"a message of over {MAX_MESSAGE} bytes")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError("a message that is not JSON") from error
    name = message.pop("do", None) if isinstance(message, dict) else None
    if not isinstance(name, str) or name not in COMMANDS:
        raise UserError("a message that asks for nothing known")
    wanted = COMMANDS[name][1]
    if message.keys() != wanted.keys():
        raise UserError(f"{name} has the fields {sorted(wanted)}")
    return Command(name, {field: _checked(name, field, message[field], kind) for field, kind in wanted.items()})


def _checked(name: str, field: str, value: Any, kind: type) -> Any:
    if type(value) not in ((int, float) if kind is float else (kind,)):
        raise UserError(f"{name}: {field} must be a {kind.__name__}")
    if kind in (int, float) and not abs(value) <= LARGEST_NUMBER:  # NaN and infinity neither
        raise UserError(f"{name}: {field} must be at most {LARGEST_NUMBER:,}")
    return float(value) if kind is float else value


class Kind(IntEnum):
    """What a binary message holds."""

    PICTURE = 1
    GRID = 2
    VIDEO = 3


def pack(kind: Kind, header: dict[str, Any], payload: bytes) -> bytes:
    """Return a binary message."""
    text = json.dumps(header, allow_nan=False).encode()
    return struct.pack("<BI", kind, len(text)) + text + payload


class FrameStream:
    """Frames to a page that keeps the last one: gray values, palette indices, or RGB from the 257th color on."""

    def __init__(self) -> None:
        self._palette = PaletteEncoder()
        self._colors = 0
        self._form = ""
        self._frame = np.zeros((0, 0, 0), np.uint8)
        self._values = np.zeros(0, np.uint8)

    def encode(self, frame: Seen) -> tuple[dict[str, Any], bytes]:
        """Return what the header says of a frame (h, w, C), and its bytes xor those of the frame before it."""
        known = frame.shape == self._frame.shape
        form, values = self._encode(frame, known)
        header: dict[str, Any] = {"form": form, "size": [frame.shape[0], frame.shape[1]]}
        if form == "palette" and (colors := len(self._palette.palette)) > self._colors:
            self._colors, header["palette"] = colors, self._palette.palette.tobytes().hex()
        if known and form == self._form:
            difference = values ^ self._values
        else:
            difference, header["whole"] = values, True
        self._form, self._frame, self._values = form, frame, values
        return header, difference.tobytes()

    def _encode(self, frame: Seen, known: bool) -> tuple[str, NDArray[np.uint8]]:
        if frame.shape[2] == 1:
            return "gray", frame[..., 0]
        try:
            return ("rgb", frame) if self._form == "rgb" else ("palette", self._indices(frame, known))
        except TooManyColorsError:
            return "rgb", frame

    def _indices(self, frame: Seen, known: bool) -> NDArray[np.uint8]:
        """Return palette indices (h, w), looking up only the pixels that have changed."""
        if not known or self._form != "palette":
            return self._palette.encode(frame)
        changed = (frame != self._frame).any(-1)
        values = self._values.copy()
        values[changed] = self._palette.encode(frame[changed][None])[0] if changed.any() else 0
        return values


class PictureStream:
    """Both worlds to a page, each as a stream of frames."""

    def __init__(self) -> None:
        self._of: tuple[str, bool] | None = None
        self._streams: dict[str, FrameStream] = {}

    def encode(self, session: Session, number: int) -> bytes:
        """Return the message that shows the session as it is now."""
        moment = session.moment
        if (session.name, moment.real is None) != self._of:
            self._of = session.name, moment.real is None
            self._streams = {"real": FrameStream(), "dream": FrameStream()}
        header, payloads = facts(session) | {"picture": number}, []
        for name, frame in (("real", moment.real), ("dream", moment.dream.frame)):
            if frame is not None:
                header[name], payload = self._streams[name].encode(frame)
                payloads.append(payload)
        return pack(Kind.PICTURE, header, b"".join(payloads))


def facts(session: Session) -> dict[str, Any]:
    """Return what the meters and labels of the page show."""
    moment, reading = session.moment, session.moment.reading
    world = session.world
    return {
        "predictor": session.name,
        "number": moment.number,
        "steps": moment.dream.steps,
        "watching": None if moment.dream.state else [len(moment.frames), session.context],
        "action": moment.action,
        "wrong": None if reading is None else reading.wrong,
        "pixels": None if reading is None else reading.pixels,
        "error": None if reading is None else round(reading.error, 3),
        "found": None if reading is None else reading.found,
        "score": moment.score,
        "earned": moment.earned,
        "dreamed": moment.dreamed if session.knows_rewards else None,
        "end": None if moment.dream.end is None else round(moment.dream.end, 3),
        "over": moment.over,
        "driver": session.driver,
        "paused": session.paused,
        "fps": session.fps,
        "recording": None if session.clip is None else len(session.clip),
        "scrub": [world.position_in_store, world.at] if isinstance(world, RecordedWorld) else None,
    }


def welcome(session: Session) -> dict[str, Any]:
    """Return what the page must know of a stage before it shows anything."""
    store = session.stage.store
    return {
        "game": session.stage.env_id,
        "actions": list(session.stage.action_meanings),
        "predictors": list(session.cast.names),
        "predictor": session.name,
        "frame": list(session.dreamer.predictor.config.frame),
        "episodes": [] if store is None else [entry.frames for entry in store.entries],
        "missing": session.stage.missing,
    }


def grid_message(grid: Grid) -> bytes:
    """Return every action's pictures as RGB or gray bytes, dreams first, then truths."""
    header = {"steps": grid.steps, "shape": list(grid.dreams.shape), "truths": grid.truths is not None}
    return pack(Kind.GRID, header, grid.dreams.tobytes() + (b"" if grid.truths is None else grid.truths.tobytes()))


def video_message(video: Video) -> bytes:
    """Return a clip's file."""
    return pack(Kind.VIDEO, {"kind": video.kind}, video.data)
