"""When the dream is resynced with the real frames without a key press."""

from __future__ import annotations

from dataclasses import dataclass

from acvp.errors import UserError

OFF, WHEN_LOST = "off", "lost"
LOST_STEPS = 15
"""Steps in a row in which the controlled object is not found, until it counts as lost: a second of Atari."""
LATEST = 300
"""Steps after which a dream is resynced even if its object is found: 20 seconds of Atari."""
MAX_EVERY = 10_000


@dataclass(frozen=True)
class AutoResync:
    """After how many predictions, and whether when the controlled object is lost."""

    every: int | None = None
    when_lost: bool = False

    @classmethod
    def parse(cls, text: str) -> AutoResync:
        """Read "off", "lost" or a number of steps."""
        if text == OFF:
            return cls()
        if text == WHEN_LOST:
            return cls(every=LATEST, when_lost=True)
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAX_EVERY):
            raise UserError(f"automatic resync {text[:20]!r}: choose {OFF}, {WHEN_LOST} or 1 to {MAX_EVERY} steps")
        return cls(every=int(text))

    def __str__(self) -> str:
        return WHEN_LOST if self.when_lost else OFF if self.every is None else str(self.every)

    def due(self, steps: int, lost_steps: int) -> bool:
        """Return whether to resync after so many predictions, the last of which lost the controlled object."""
        too_long = self.every is not None and steps >= self.every
        return too_long or (self.when_lost and lost_steps >= LOST_STEPS)
