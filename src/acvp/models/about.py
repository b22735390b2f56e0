"""What a predictor tells about itself."""

from __future__ import annotations

from dataclasses import dataclass

from acvp.models.checks import ConfigError


@dataclass(frozen=True, kw_only=True)
class About:
    """What a predictor was trained on and with, for those who use it."""

    env_id: str
    """The game."""
    view: str
    """How it looks at frames: rgb or gray84."""
    action_meanings: tuple[str, ...]
    """A name per action."""
    data: str = "not recorded"
    """What it was trained on, in a sentence."""
    compute: str = "not recorded"
    """How long and on what, in a sentence."""
    error: str = "not measured"
    """What it reaches on held-out windows, in a sentence."""
    licence: str = "MIT"
    """Under which the weights may be used."""

    def __post_init__(self) -> None:
        texts = (self.env_id, self.view, self.data, self.compute, self.error, self.licence, *self.action_meanings)
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"everything about a predictor is text; found {texts}")
