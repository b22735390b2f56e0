"""What all tests share: properties are about what comes out, never about how long it takes."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("acvp", deadline=None)
settings.load_profile("acvp")
