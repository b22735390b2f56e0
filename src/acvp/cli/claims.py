"""`acvp claims`: judges the paper's claims by results."""

from __future__ import annotations

from acvp.cli.main import Verb
from acvp.console import out
from acvp.exits import EXIT_OK
from acvp.reproduce.config import ClaimsConfig


def run(config: ClaimsConfig) -> int:
    """Write the conclusions, and print how often each conclusion was given."""
    from acvp.reproduce.conclusions import CLAIMS_NAME, PAGE_NAME, counts, left_out, write_claims

    rows = write_claims(config.results, config.out)
    for conclusion, count in counts(rows).items():
        out.print(f"{conclusion}: {count} of {len(rows)}")
    for file, why in left_out(rows).items():
        out.print(f"left out: {file}: {why}")
    out.print(f"written to {config.out / CLAIMS_NAME} and {config.out / PAGE_NAME}")
    return EXIT_OK


VERBS = {
    "claims": Verb(
        options=ClaimsConfig, run=run, example="acvp claims --results results/reproduction results --out claims"
    )
}
