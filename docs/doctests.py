"""Shows the examples of docstrings (lines that start with >>>) as code on the site; without it they are quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"((?:^>>> .*\n?(?:^\.\.\. .*\n?)*)+)", re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around every example."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Change the docstring of a function, class, module or attribute before it is shown."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"```pycon\n\1\n```\n", obj.docstring.value)
