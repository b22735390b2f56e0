"""What an agent tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

from acvp.agents.network import STACK
from acvp.errors import UserError

VIEW = "gray84"


class AgentError(UserError):
    """An agent that is not there, is damaged, or does not fit the game."""


@dataclass(frozen=True, kw_only=True)
class AgentAbout:
    """What an agent was trained on and with, for those who use it."""

    env_id: str
    """The game."""
    action_meanings: tuple[str, ...]
    """A name per action."""
    view: str = VIEW
    """How it looks at frames: one emulator frame a decision, luminance, area interpolation to 84×84."""
    stack: int = STACK
    """Frames it sees at once; the first of a play is repeated until there are so many."""
    training: str = "not recorded"
    """How it was trained and for how long, in a sentence."""
    score: str = "not measured"
    """What it scores, in a sentence."""
    licence: str = "MIT"
    """Under which the weights may be used."""

    def __post_init__(self) -> None:
        texts = (self.env_id, self.view, self.training, self.score, self.licence, *self.action_meanings)
        if not all(isinstance(text, str) for text in texts):
            raise AgentError(f"everything about an agent is text; found {texts}")
        if not self.action_meanings:
            raise AgentError("an agent has at least one action")
        if (self.view, self.stack) != (VIEW, STACK):
            raise AgentError(f"agents see {STACK} frames of view {VIEW}; found {self.stack} of view {self.view!r}")
