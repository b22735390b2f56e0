"""A moment of a game that can be returned to, in memory or from disk, without pickle."""

import json
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Any

from acvp.errors import UserError

_MAGIC = b"acvp-state-1\n"


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """Everything that decides how a game goes on, and the frame it shows."""

    env_id: str
    """Canonical id of the game that made it; only the same game takes it back."""
    elapsed: int
    """Decisions since the reset."""
    ended: bool
    """Whether the episode was over."""
    lives: int
    """Lives left, -1 where the game has none."""
    last_action: int
    """The action executed last, which a sticky joystick may repeat."""
    generator: dict[str, Any] | None
    """State of the sticky joystick's generator, None before it is used."""
    payload: bytes
    """The game's own state, in its own format."""

    def to_bytes(self) -> bytes:
        """Write the state as a checksummed block that `from_bytes` reads on any machine with the same emulator."""
        header = asdict(self)
        del header["payload"]
        text = json.dumps(header).encode()
        return _MAGIC + zlib.compress(len(text).to_bytes(4, "little") + text + self.payload, level=1)

    @classmethod
    def from_bytes(cls, data: bytes) -> "SavedState":
        """Read what `to_bytes` wrote; anything else is refused."""
        if not data.startswith(_MAGIC):
            raise UserError(
                f"these {len(data)} bytes are not a saved game state: they do not begin with {_MAGIC.strip()!r}"
            )
        try:
            body = zlib.decompress(data[len(_MAGIC) :])
        except zlib.error as error:
            raise UserError(f"the saved game state is damaged ({error}): save it again") from error
        end = 4 + int.from_bytes(body[:4], "little")
        try:
            return cls(**json.loads(body[4:end]), payload=body[end:])
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"the saved game state is damaged ({error}): save it again") from error

    def __repr__(self) -> str:
        names = [f.name for f in fields(self) if f.name not in ("generator", "payload")]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"SavedState({shown}, {len(self.payload)} bytes)"
