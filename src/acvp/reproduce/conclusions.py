"""Conclusions: every claim judged by result files, ours beside the paper's number, as claims.json and a page.

A result of another shape is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from os.path import relpath
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

from acvp.console import in_markdown, visible
from acvp.durable import exclusive_writer, make_folder, write_atomic
from acvp.report.sources import OTHER_SHAPE
from acvp.reproduce.claims import CLAIMS, Claim, Conclusion
from acvp.reproduce.config import PAPER_GAMES
from acvp.reproduce.evidence import Evidence, Finding, Result
from acvp.runs import write_results

CLAIMS_NAME, PAGE_NAME = "claims.json", "claims.md"
WHAT = "claims of Oh et al., 2015, each with a conclusion that follows from result files by the rule beside it"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A claim with its conclusion."""

    claim: Claim
    conclusion: Conclusion
    findings: Mapping[str, Finding]
    """By game; games without results are left out."""
    left_out: Mapping[Path, str] = field(default_factory=dict)
    """Files that are not as this version of acvp writes them → what is wrong."""

    @property
    def coverage(self) -> str:
        """In how many of the games that were run it holds, and how many the claim is about; empty for one game."""
        about = self.claim.about
        counted = [finding.holds for game, finding in self.findings.items() if game in about]
        if len(about) == 1 or not counted:
            return ""
        return f"holds in {counted.count(True)} of {len(counted)} games run; the claim is about {len(about)}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        names = ("number", "where", "text", "paper", "rule", "part", "command")
        claim = {name: getattr(self.claim, name) for name in names}
        games = {
            game: {name: str(value) if isinstance(value, Path) else value for name, value in asdict(finding).items()}
            for game, finding in self.findings.items()
        }
        left_out = {str(file): why for file, why in self.left_out.items()}
        judged = {"conclusion": self.conclusion, "coverage": self.coverage, "games": games}
        return claim | judged | ({"left_out": left_out} if left_out else {})


def judge_claims(evidence: Evidence) -> list[Row]:
    """Return a row per claim."""
    return [judge_claim(claim, evidence) for claim in CLAIMS]


def judge_claim(claim: Claim, evidence: Evidence) -> Row:
    """Return the row of one claim."""
    games = dict.fromkeys((*PAPER_GAMES, *evidence.games)) if claim.games is None else claim.games
    findings: dict[str, Finding] = {}
    left_out: dict[Path, str] = {}
    for game in games:
        finding, foreign = _judge(claim, evidence, game)
        findings |= {game: finding} if finding else {}
        left_out |= foreign
    return Row(claim=claim, conclusion=claim.conclusion(findings), findings=findings, left_out=left_out)


def _judge(claim: Claim, evidence: Evidence, game: str) -> tuple[Finding | None, dict[Path, str]]:
    """Return what the results say of a claim in a game, without those of another shape, and what is wrong with these.

    A file is of another shape if the judge fails on it alone, or where none is, if the judge fails only with it.
    """
    foreign: dict[Path, str] = {}
    while evidence.results and (wrong := _fails(claim, evidence, game)):
        alone = {
            result.file: why for result in evidence.results if (why := _fails(claim, evidence.only([result]), game))
        }
        blamed = alone or {
            result.file: wrong for result in evidence.results if not _fails(claim, _without(evidence, result), game)
        }
        foreign |= blamed or {result.file: wrong for result in evidence.results}
        evidence = evidence.only([result for result in evidence.results if result.file not in foreign])
    return claim.judge(evidence, game), foreign


def _without(evidence: Evidence, without: Result) -> Evidence:
    return evidence.only([result for result in evidence.results if result is not without])


def _fails(claim: Claim, evidence: Evidence, game: str) -> str:
    """Return how a judge fails on results of another shape; empty: it does not."""
    try:
        claim.judge(evidence, game)
    except OTHER_SHAPE as error:
        return f"not as this version of acvp writes it ({type(error).__name__}: {error})"
    return ""


def left_out(rows: Sequence[Row]) -> dict[Path, str]:
    """Return the files that some claim could not be judged by, each once."""
    return {file: why for row in rows for file, why in row.left_out.items()}


def write_claims(results: Sequence[Path], out: Path) -> list[Row]:
    """Write claims.json and claims.md, and return the rows."""
    rows = judge_claims(Evidence(results))
    body = {"what": WHAT, "conclusions": counts(rows), "claims": [row.to_dict() for row in rows]}
    make_folder(out)
    with exclusive_writer(out):
        write_results(out / CLAIMS_NAME, body)
        write_atomic(out / PAGE_NAME, page(rows, out).encode())
    return rows


def counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return how often each conclusion was given."""
    return {kind: sum(row.conclusion == kind for row in rows) for kind in get_args(Conclusion)}


def page(rows: Sequence[Row], folder: Path) -> str:
    """Return the claims as a Markdown page that lies in a folder."""
    total = ", ".join(f"{count} {conclusion}" for conclusion, count in counts(rows).items() if count)
    lines = [f"Conclusions on {len(rows)} claims: {total}.", ""]
    lines += ["| # | claim | paper | ours | compute | conclusion |", "|---|---|---|---|---|---|"]
    lines += [_line(row) for row in rows]
    lines += ["", "## Rules, commands and pictures", ""]
    for row in rows:
        lines += _details(row, folder)
    return "\n".join(lines).rstrip() + "\n"


def _line(row: Row) -> str:
    claim = row.claim
    ours = "<br>".join(
        f"{_named(game)}{_cell(finding.number)}{_mark(finding)}" for game, finding in row.findings.items()
    )
    compute = "<br>".join(dict.fromkeys(_cell(finding.compute) for finding in row.findings.values()))
    cells = (_cell(f"{claim.where}: {claim.text}"), _cell(claim.paper), ours or "–", compute or "–")
    conclusion = f"**{row.conclusion}**" + (f"; {row.coverage}" if row.coverage else "")
    return f"| [{claim.number}](#claim-{claim.number}) | {' | '.join(cells)} | {conclusion} |"


def _mark(finding: Finding) -> str:
    return {True: " ✓", False: " ✗", None: " (incomplete)"}[finding.holds]


def _named(game: str) -> str:
    return f"*{game}*: ".replace("_", " ") if game else ""


def _cell(text: str) -> str:
    """Return a text for a table: names of files and what they contain may be anything, and none of it is markup."""
    return in_markdown(text.replace("\n", " ")).replace("|", "\\|")


def _code(text: str) -> str:
    return "`" + visible(text).replace("`", "'") + "`"


def _link(words: str, file: Path, folder: Path) -> str:
    return f"[{words}]({quote(relpath(file, folder))})"


def _details(row: Row, folder: Path) -> list[str]:
    claim = row.claim
    lines = [f"### Claim {claim.number}", f"{claim.where}: {claim.text}. Confirmed if {claim.rule}.", ""]
    for game, finding in row.findings.items():
        result = f", {_link('result', finding.file, folder)}" if finding.file else ""
        drawn = f", {_link('picture', finding.picture, folder)}" if finding.picture else ""
        lines.append(f"- {_named(game)}{_code(finding.command)}{result}{drawn}")
    lines += [f"- left out: {_cell(relpath(file, folder))}: {_cell(why)}" for file, why in row.left_out.items()]
    if row.conclusion in ("incomplete", "not run"):
        lines.append(f"- {row.conclusion}: `{claim.advice}`")
    return [*lines, ""]
