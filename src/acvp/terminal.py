"""What is printed is what was given: a path, a run or an action may have any name, and none of them is markup."""

from __future__ import annotations

import unicodedata
from typing import Any

from rich.console import Console
from rich.progress import TextColumn
from rich.text import Text


def visible(text: str) -> str:
    """Return a text with everything that would steer a terminal written out, such as \\x1b, \\n and \\u202e."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in text
    )


class PlainConsole(Console):
    """Prints strings, and tables of them, as they are: no markup, no emoji codes, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, soft_wrap=True, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Turn a string into what is shown; rich passes every string through here, cells and titles too."""
        return super().render_str(visible(text), **(options | {"markup": False, "emoji": False}))


class PlainColumn(TextColumn):
    """A column of a progress bar, with the names in it as they are."""

    def __init__(self, text_format: str) -> None:
        super().__init__(text_format, markup=False)

    def render(self, task: Any) -> Text:
        """Turn the state of a task into what is shown."""
        return Text(visible(self.text_format.format(task=task)), style=self.style, justify=self.justify)
