"""Retired words, and what each is called now; `python -m tests.words` lists every use."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent

RETIRED = {
    "go on": (r"\b(go|goes|going|gone|went)[ _]on\b", "resume, continue"),
    "tell, say": (r"\btells?\b|\btold\b|\btelling|\bforet(ell|old)|\bsay\(", "report, predict; informative"),
    "mend": (r"\bmend(s|ed|ing)?\b", "fix"),
    "anew": (r"\banew\b", "again"),
    "spoil": (r"\bspoil|_spoil", "corrupt; input corruption"),
    "come to": (r"\b(come|comes|came) to\b", "amount to"),
    "of its own": (r"\bof (its|their) own\b", "separate"),
    "plays": (
        r"--plays\b|\.plays\b|\bplays\s?[:=]|\b(each|every|per|another) play\b"
        r"|\b(the|of|many|several|all|more|whole|stored|recorded) plays\b",
        "episodes",
    ),
    "decision": (r"decisions?(\b|_)", "agent step"),
    "store": (r"--store\b", "--data"),
    "recipe": (r"recipe|DqnSettings|make_settings", "config, preset"),
    "feed back": (r"feed_back|predict_from_real", "teacher forcing"),
    "outcome heads": (r"outcome[ _-]?heads?\b|OutcomeHeads", "reward and termination heads"),
    "ends": (r"\.ends\b|\bends\s?=|[\"']ends[\"']\s*[]:]|\bas ends\b", "terminations; exits"),
    "ground": (r"\breground|\bground(s|ed|ing)?\b(?![ -]truth)", "resync with real frames"),
    "depth": (r"(\b|_)depths?(\b|_)", "horizon"),
    "subject": (r"\bsubjects?\b(?! to\b)|(?-i:Subjects?\b)", "model"),
    "cast": (r"(?-i:\bCast\b(?!\", \[))|\bthe cast\b", "model pool"),  # an operator of ONNX is called so
    "place": (r"(?<!\bin)_places?\b|\bplaces?_|(?-i:\bPlace\b)", "window start"),
    "possible": (r"_(im)?possible\b|\b(im)?possible_", "palette mask"),
    "flashing": (r"\brecolou?r|_recolou?r|\bflash", "palette cycling"),
    "round edges": (r"\bround[ _-]edges?", "circular padding"),
    "same luck": (r"\bluck\b", "shared noise"),
    "options loss": (r"options[ _]loss|\.(ways|likely|alone)\b|\b(ways|likely|alone)=", "copy mixture likelihood"),
    "rarity": (r"\brarity|rarity_|\brare[ _-]share|look_for_rare|eventful|\bemphasis", "sampling priority"),
    "still": (r"\.still\b|\bstill=|\bunusual[ _]cells?", "background subsampling"),
    "exchange": (r"\bintake|\boutlet|\bexchang", "importer, exporter, formats"),
    "blob": (r"(?-i:\bblobs?\b(?!/))", "Caffe mean"),
    "rehearsal": (r"\brehears", "estimate"),
    "guard": (r"(\b|_)guards?\b", "finite check, origin check"),
    "engine": (r"(\b|_)engines?\b", "devices"),
    "snapshot": (r"\bsnapshot(?!_download|s)", "trainer state"),
    "Position": (r"(?-i:class Position\b|\bPosition\()", "trainer state"),
    "moment": (r"(\b|_)moments?(\b|_)|(?-i:Moments?\b)", "optimizer state; state"),
    "Explorer": (r"expedition|(?-i:class Route\b|\bWanderer|\bSurvey\b|Explorer\b)", "exploration run, strategy"),
    "sight": (r"\bsights?\b|(True|No|Predicted)Sight", "observation source"),
    "source": (r"(Future|Model|Emulator)Source\b|explore_sources", "lookahead"),
    "ledger": (r"\bledger", "result cache"),
    "viewing": (r"\bviewing", "observations"),
    "outlook": (r"outlook", "evaluation windows"),
    "tally": (r"\btall(y|ies)\b", "accumulator"),
    "walk": (r"(?<![.\w])walk\b", "rollout"),
    "verdict": (r"verdict", "result"),
    "studio": (r"studio", "media"),
    "film": (r"\bfilm(s|ed|ing)?\b(?![ -]strip)", "clip"),
    "scenes": (r"\bscenes?\b", "samples"),
    "halves": (r"\b(the|two|both) halves\b|_halves|halves_", "factor split"),
    "stage": (r"\bopen_stage|(?-i:class Stage\b)|\bplay\.stage\b", "context"),
    "timeline": (r"timeline", "rewind buffer"),
    "meters": (r"\bmeters\b", "live metrics"),
    "wire": (r"\bwire\b", "protocol"),
    "Dreamer": (r"(?-i:\b(Onnx)?Dreamer\b|\bclass Dream\b|\bOnnxDream\b|\bDream\()", "imagined world"),
    "Eye": (r"(?-i:\bEyes?\b)", "preprocessor"),
    "Hall": (r"(?-i:_Hall\b)", "env loop"),
    "Torso": (r"torso", "features extractor"),
    "BetweenRounds": (r"BetweenRounds|between_rounds", "callback"),
    "CUT_OFF": (r"CUT_OFF", "truncated"),
    "life_ends": (r"life_ends", "episodic life"),
    "British spelling": (
        r"colour|\bgrey|behaviour|favour|neighbour|\bcentre|artefact|licence|judgement|\blearnt\b|modell(ed|ing)"
        r"|labell(ed|ing)|cancelled|travell(ed|ing)|catalogue|analys(e|ed|er|ing)\b"
        r"|(optim|normal|initial|recogn|general|organ|serial|visual|summar|minim|maxim|quant|regular|synchron|\breal|util"
        r"|random|final|emphas|standard|parameter|token)is(e|es|ed|er|ers|ing|ation|ations)(\b|_)",
        "American spelling",
    ),
}  # fmt: skip
"""A retired word → the pattern that finds it, and what to write instead."""

VARIABLES = {"told", "one", "each", "found", "wanted"}
VARIABLE_RULE = "variables"
"""Names of variables that say nothing about their values."""

EXEMPT = {"src/acvp/compat.py"}
"""Files that are about old names."""


@dataclass(frozen=True)
class Use:
    """A retired word in a line of a file."""

    word: str
    file: str
    line: int
    text: str

    def __str__(self) -> str:
        instead = RETIRED[self.word][1] if self.word in RETIRED else "what the thing is"
        return f"{self.file}:{self.line}: {self.word} → {instead}: {self.text.strip():.100}"


def files() -> Iterator[Path]:
    """Return all files that are read, in order."""
    for pattern in ("*.md", "docs/**/*.md", "src/**/*.py", "src/**/*.js", "src/**/*.html", "src/**/*.css"):
        yield from sorted(ROOT.glob(pattern))
    for pattern in ("benchmarks/*.py", "examples/*.py", "tests/**/test_*.py"):
        yield from sorted(ROOT.glob(pattern))


def uses() -> Iterator[Use]:
    """Find every retired word: in whole files, in tests only in the names of files and functions."""
    patterns = {word: re.compile(pattern, re.IGNORECASE) for word, (pattern, _) in RETIRED.items()}
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name in EXEMPT:
            continue
        text = path.read_text()
        in_test = name.startswith("tests/")
        searched = f"{path.stem.replace('_', ' ')}\n{names_of_tests(text) if in_test else text}"
        for word, pattern in patterns.items():
            for match in pattern.finditer(searched):
                number = searched.count("\n", 0, match.start())
                yield Use(word, name, number, searched.splitlines()[number])
        if path.suffix == ".py" and not in_test:
            yield from variables(name, text)


def names_of_tests(text: str) -> str:
    """Return the source of tests with nothing left but the names of its functions, as separate words."""
    tests = (re.match(r"\s*def (test_\w+)", line) for line in text.splitlines())
    return "\n".join(test[1].replace("_", " ") if test else "" for test in tests)


def variables(name: str, text: str) -> Iterator[Use]:
    """Find assignments, loops and parameters that bind a name which says nothing."""
    source = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        bound = node.arg if isinstance(node, ast.arg) else None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound = node.id
        if bound in VARIABLES and isinstance(node, ast.arg | ast.Name):
            yield Use(VARIABLE_RULE, name, node.lineno, source[node.lineno - 1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="list only uses in files whose name contains one of these")
    arguments = parser.parse_args()
    for use in uses():
        if not arguments.files or any(part in use.file for part in arguments.files):
            print(use)
