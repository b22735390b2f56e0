"""The protocol between page and server: JSON commands from the page, JSON and binary messages to it.

A command is `{"do": name, …}`; its name and the types of its fields are checked before a session sees it. A binary
message is one byte of kind, four bytes of header length (little-endian), the header as JSON, and the payload. Pictures
have one byte per pixel where possible and are sent as the difference from the one before, which the socket's own
compression reduces to a few hundred bytes.

Shapes: h height, w width and C channels of the predictor's view, N colors.
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

from acvp.data.frames import PaletteEncoder, TooManyColorsError
from acvp.errors import UserError
from acvp.play.context import RecordedWorld
from acvp.play.session import Session
from acvp.play.worlds import ActionGrid, ViewedFrame

MAX_MESSAGE = 1024
"""Bytes of a command at most."""
LARGEST_NUMBER = 10**9
"""Largest number in a command, far beyond any frame, episode or rate."""


@dataclass(frozen=True)
class Note:
    """A message for the player."""

    text: str


@dataclass(frozen=True)
class Video:
    """A finished clip."""

    kind: str
    data: bytes


@dataclass(frozen=True)
class Link:
    """The text of a link to this game."""

    text: str


Reply = Note | Link | ActionGrid | Video | None


def _change_driver(session: Session) -> Reply:
    text = session.change_driver()
    return None if text is None else Note(text)


def _share(session: Session) -> Reply:
    return Link(session.share())


def _end_clip(session: Session, kind: str) -> Reply:
    return Video(kind, session.end_clip(kind))


COMMANDS: dict[str, tuple[Callable[..., Reply], dict[str, type]]] = {
    "hold": (Session.hold, {"action": int}),
    "step": (Session.step, {}),
    "reset": (Session.reset, {}),
    "resync": (Session.resync, {}),
    "rewind": (Session.rewind, {}),
    "go": (Session.go, {"step": int}),
    "uncertainty": (Session.show_uncertainty, {"on": bool}),
    "every_action": (Session.every_action, {"steps": int}),
    "switch": (Session.switch, {"name": str}),
    "scrub": (Session.scrub, {"episode": int, "frame": int}),
    "change_driver": (_change_driver, {}),
    "pause": (Session.pause, {"on": bool}),
    "fps": (Session.set_fps, {"fps": float}),
    "auto_resync": (Session.set_auto_resync, {"mode": str}),
    "temperature": (Session.set_temperature, {"temperature": float}),
    "compare": (Session.compare, {"name": str}),
    "share": (_share, {}),
    "replay": (Session.replay, {"text": str, "last": bool}),
    "record": (Session.record, {}),
    "end_clip": (_end_clip, {"kind": str}),
}
"""The method of each command, and the fields it must have with their types."""


@dataclass(frozen=True)
class Command:
    """A command whose name and fields have been checked."""

    name: str
    fields: dict[str, Any]

    def perform(self, session: Session) -> Reply:
        """Run it; a UserError becomes a note for the player."""
        try:
            return COMMANDS[self.name][0](session, **self.fields)
        except UserError as error:
            return Note(str(error))


def parse(text: str) -> Command:
    """Return the command of a message `{"do": name, …}`; UserError for anything else."""
    if len(text.encode(errors="replace")) > MAX_MESSAGE:
        raise UserError(f"a message of over {MAX_MESSAGE} bytes")
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError("a message that is not JSON") from error
    name = message.pop("do", None) if isinstance(message, dict) else None
    if not isinstance(name, str) or name not in COMMANDS:
        raise UserError("an unknown command")
    fields = COMMANDS[name][1]
    if message.keys() != fields.keys():
        raise UserError(f"{name} has the fields {sorted(fields)}")
    return Command(name, {field: _checked(name, field, message[field], kind) for field, kind in fields.items()})


def _checked(name: str, field: str, value: Any, kind: type) -> Any:
    if type(value) not in ((int, float) if kind is float else (kind,)):
        raise UserError(f"{name}: {field} must be a {kind.__name__}")
    if kind in (int, float) and not abs(value) <= LARGEST_NUMBER:  # NaN and infinity neither
        raise UserError(f"{name}: {field} must be at most {LARGEST_NUMBER:,}")
    return float(value) if kind is float else value


class Kind(IntEnum):
    """The kinds of binary messages."""

    PICTURE = 1
    GRID = 2
    VIDEO = 3


def pack(kind: Kind, header: dict[str, Any], payload: bytes) -> bytes:
    """Return a binary message."""
    text = json.dumps(header, allow_nan=False).encode()
    return struct.pack("<BI", kind, len(text)) + text + payload


class FrameStream:
    """Encodes frames for a page that keeps the last one: as gray values, palette indices, or RGB beyond 256 colors."""

    def __init__(self) -> None:
        self._palette = PaletteEncoder()
        self._colors = 0
        self._form = ""
        self._frame = np.zeros((0, 0, 0), np.uint8)
        self._values = np.zeros(0, np.uint8)

    def encode(self, frame: ViewedFrame) -> tuple[dict[str, Any], bytes]:
        """Return the header of a frame (h, w, C), and its bytes xor those of the frame before it."""
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

    def _encode(self, frame: ViewedFrame, known: bool) -> tuple[str, NDArray[np.uint8]]:
        if frame.shape[2] == 1:
            return "gray", frame[..., 0]
        try:
            return ("rgb", frame) if self._form == "rgb" else ("palette", self._indices(frame, known))
        except TooManyColorsError:
            return "rgb", frame

    def _indices(self, frame: ViewedFrame, known: bool) -> NDArray[np.uint8]:
        """Return palette indices (h, w), looking up only the pixels that have changed."""
        if not known or self._form != "palette":
            return self._palette.encode(frame)
        changed = (frame != self._frame).any(-1)
        values = self._values.copy()
        values[changed] = self._palette.encode(frame[changed][None])[0] if changed.any() else 0
        return values


class PictureStream:
    """Encodes both worlds for a page, each as a stream of frames."""

    def __init__(self) -> None:
        self._source: tuple[str, bool] | None = None
        self._streams: dict[str, FrameStream] = {}

    def encode(self, session: Session, number: int) -> bytes:
        """Return the message that shows the session's current state."""
        state = session.state
        if (session.model_name, state.real is None) != self._source:
            self._source = session.model_name, state.real is None
            self._streams = {name: FrameStream() for name in ("real", "imagined", "other", "left", "uncertainty")}
        header, payloads = facts(session) | {"picture": number}, []
        other = None if state.other is None else state.other.frame
        frames = {"real": state.real, "imagined": state.imagined.frame, "other": other}
        frames |= {"left": session.left_future.get(state.agent_steps), "uncertainty": state.imagined.uncertainty}
        for name, frame in frames.items():
            if frame is not None:
                header[name], payload = self._streams[name].encode(frame)
                payloads.append(payload)
        return pack(Kind.PICTURE, header, b"".join(payloads))


def facts(session: Session) -> dict[str, Any]:
    """Return what the live metrics and labels of the page show."""
    state, world = session.state, session.worlds.real
    return {
        "predictor": session.model_name,
        "agent_steps": state.agent_steps,
        "steps": state.imagined.steps,
        "watching": None if state.imagined.predictor_state else [len(state.frames), session.context_frames],
        "action": state.action,
        "wrong_pixels": None if state.metrics is None else state.metrics.wrong_pixels,
        "pixels": None if state.metrics is None else state.metrics.pixels,
        "squared_error": None if state.metrics is None else round(state.metrics.squared_error, 3),
        "object_found": None if state.metrics is None else state.metrics.object_found,
        "score": state.score,
        "real_reward": state.real_reward,
        "imagined_reward": state.imagined_reward if session.predicts_rewards else None,
        "termination": None if state.imagined.termination is None else round(state.imagined.termination, 3),
        "over": state.over,
        "driver": session.driver,
        "policy": session.policy_name,
        "paused": session.paused,
        "auto_resync": str(session.auto_resync),
        "temperature": session.temperature,
        "beside": "" if session.worlds.other is None else session.worlds.other.model.name,
        "other_wrong_pixels": state.other_wrong_pixels,
        "expected_wrong": None if state.imagined.expected_wrong is None else round(state.imagined.expected_wrong, 1),
        "history": list(session.history),
        "left_steps": [min(session.left_future), max(session.left_future)] if session.left_future else None,
        "notice": session.notice,
        "fps": session.fps,
        "recording": None if session.clip is None else len(session.clip),
        "scrub": [world.episode_index, world.frame_index] if isinstance(world, RecordedWorld) else None,
    }


def welcome(session: Session) -> dict[str, Any]:
    """Return what the page must know before it shows anything."""
    store = session.context.store
    return {
        "game": session.context.env_id,
        "actions": list(session.context.action_meanings),
        "predictors": list(session.models.names),
        "predictor": session.model_name,
        "frame": list(session.worlds.imagined.predictor.config.frame),
        "gives_uncertainty": session.worlds.imagined.predictor.gives_uncertainty,
        "samples": session.worlds.imagined.samples,
        "same_game": list(session.models.of_game(session.context.env_id)),
        "episodes": [] if store is None else [entry.frames for entry in store.entries],
        "missing": session.context.missing,
    }


def grid_message(grid: ActionGrid) -> bytes:
    """Return the frames of every action as RGB or gray bytes, all imagined ones first, then all real ones."""
    header = {"steps": grid.steps, "shape": list(grid.imagined.shape), "real": grid.real is not None}
    return pack(Kind.GRID, header, grid.imagined.tobytes() + (b"" if grid.real is None else grid.real.tobytes()))


def video_message(video: Video) -> bytes:
    """Return the message with a clip's file."""
    return pack(Kind.VIDEO, {"kind": video.kind}, video.data)
