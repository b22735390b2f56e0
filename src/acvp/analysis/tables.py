"""An analysis as plain tables of text, for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acvp.evaluation.tables import TextTable, banded, number

KINDS = {"as_learned": "as learned", "centred": "less the mean over actions"}


def analysis_tables(body: Mapping[str, Any]) -> list[TextTable]:
    """Return the tables of what analysis.json holds, one for each part that has numbers."""
    makers = {"similarity": _similarity, "controlled": _explained, "contingency": _contingency}
    tables = [make(body[part]) for part, make in makers.items() if part in body]
    return [table for table in tables if table is not None]


def _similarity(part: Mapping[str, Any]) -> TextTable | None:
    rows = [
        (f"{name}, {title}", kind, str(mean["pairs"]), f"{mean['mean']:+.3f}", number(mean["p"]))
        for name, table in part["tables"].items()
        for key, title in KINDS.items()
        for kind, mean in table[key]["pairs"].items()
    ]
    heads = ("factors", "pairs of actions", "how many", "mean cosine", "p (relabelled)")
    return TextTable("Action similarity", heads, tuple(rows)) if rows else None


def _explained(part: Mapping[str, Any]) -> TextTable | None:
    if "explained" not in part:
        return None
    rows = [(name, banded(curve, 0), banded(curve, 1)) for name, curve in part["explained"].items()]
    title = f"Share of the true change explained, 95 % band; Action: {factor_share(part)}"
    return TextTable(title, ("factors", "near the object", "elsewhere"), tuple(rows))


def factor_share(part: Mapping[str, Any]) -> str:
    """Return the share of high-variance factors in words, beside that of the untrained network where it is known."""
    untrained = part.get("share_of_factors_untrained")
    beside = "" if untrained is None else f" (untrained network: {untrained:.0%})"
    return f"{part['share_of_factors']:.0%} of the factors{beside}"


def _contingency(part: Mapping[str, Any]) -> TextTable:
    found = part["correlation"]
    rows = (
        ("mean maps", number(found["mean_maps"]), "–"),
        ("state by state", number(found["by_state"]), number(found["by_state_of_mean_map"])),
    )
    return TextTable(f"Contingency, {part['states']} states", ("correlation", "predicted", "mean true map"), rows)
