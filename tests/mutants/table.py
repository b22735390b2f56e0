"""All mutants, by package."""

from __future__ import annotations

from tests.mutants.acting import ACTING
from tests.mutants.judging import JUDGING
from tests.mutants.learning import LEARNING
from tests.mutants.recording import RECORDING
from tests.mutants.reproducing import REPRODUCING

MUTANTS = (*RECORDING, *LEARNING, *JUDGING, *ACTING, *REPRODUCING)
