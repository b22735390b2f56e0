"""What a page may ask for: small JSON messages, checked by name and type before a session sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from acvp.errors import UserError
from acvp.play.moment import Grid
from acvp.play.session import Session

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
