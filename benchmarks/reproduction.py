"""python -m benchmarks.reproduction: writes the claims into docs/reproduction.md, from the files in results/."""

from __future__ import annotations

from acvp.reproduce.conclusions import judge_claims, page
from acvp.reproduce.evidence import Evidence
from benchmarks.provenance import RESULTS

PAGE = RESULTS.parent / "docs" / "reproduction.md"
HEADING = "## Claims\n"
"""What stands above it is written by hand."""


def reproduction_page() -> str:
    """Return the page with the results of today."""
    above, heading, _ = PAGE.read_text().partition(HEADING)
    rows = judge_claims(Evidence([RESULTS / "reproduction", RESULTS]))
    return above + heading + page(rows, PAGE.parent)


if __name__ == "__main__":
    PAGE.write_text(reproduction_page())
