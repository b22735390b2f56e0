"""All mutants, by package."""

from __future__ import annotations

from tests.mutants.acting import ACTING
from tests.mutants.exchange import EXCHANGE
from tests.mutants.judging import JUDGING
from tests.mutants.learning import LEARNING
from tests.mutants.planning import PLANNING
from tests.mutants.recording import RECORDING
from tests.mutants.reproducing import REPRODUCING

MUTANTS = (*RECORDING, *EXCHANGE, *LEARNING, *JUDGING, *ACTING, *PLANNING, *REPRODUCING)
