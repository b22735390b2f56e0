"""python -m benchmarks.tables: writes the pages of docs/ that are made from results; `make pictures` runs it too."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acvp import loaded
from acvp.agents.evaluate import DQN_SCORES
from acvp.envs.atari import atari_games
from benchmarks.provenance import RESULTS as RESULTS

DOCS = RESULTS.parent / "docs"
GAMES = {
    "freeway": "Freeway", "seaquest": "Seaquest", "space_invaders": "Space Invaders", "qbert": "Q\\*bert",
    "ms_pacman": "Ms Pacman",
}  # fmt: skip
BASELINES = ("copy-last-frame", "mean-frame")
HEAD = """# Benchmarks

Made by `python -m benchmarks.tables` from the files in `results/`; do not edit. Each table names the command, the
machine and the commit behind it. Compare numbers within a table only: machines differ, and some were busy.
"""

Rows = tuple[str, Sequence[str], Sequence[Sequence[object]]]
"""A sentence before the table, its heads and its rows."""


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def source(file: Path, body: dict[str, Any]) -> str:
    """Return where numbers come from."""
    made = body["provenance"]
    name = file.relative_to(RESULTS.parent).as_posix()
    changed = " with uncommitted changes" if made["commit"].endswith(("-dirty", "+")) else ""
    machine = made["machine"] if "AVX" in made["machine"] else f"{made['machine']}, instruction set not recorded"
    return f"`{made['command']}` → [`{name}`](../{name}); {machine}; commit {made['commit'][:12]}{changed}."


class Judged(NamedTuple):
    """What results/dreams has about the best packaged predictor of a game."""

    file: Path
    body: dict[str, Any]
    name: str
    """The predictor's name in it."""


def best_packaged(game: str) -> str:
    """Return the name of the best predictor of a game that comes with acvp: that of objects, where there is one."""
    return next((name for name in loaded.best_packaged() if name.removesuffix(loaded.OBJECTS) == game), game)


def judged(folder: Path = RESULTS / "dreams") -> dict[str, Judged]:
    """Return the results of every game while its packaged agent plays, of its best packaged predictor."""
    results: dict[str, Judged] = {}
    for game in GAMES:
        for file in sorted(folder.glob("*-agent.json")):
            body = json.loads(file.read_text())
            others = [name for name in body["curves"] if name not in (game, *BASELINES)]
            if game in body["curves"] and bool(others) == (best_packaged(game) != game):
                results[game] = Judged(file, body, others[0] if others else game)
    return results


def playing(results: dict[str, Judged]) -> Rows:
    """Return how predictions hold while the packaged agents play."""
    rows = []
    for game, (_, body, own) in results.items():
        works = body["keys"]["works"][own]["mean"]
        wrong = {name: curves["wrong_pixels"]["mean"] for name, curves in body["curves"].items()}
        for i, step in enumerate(body["keys"]["steps"]):
            counts = [rounded(wrong[name][step - 1]) for name in (own, *BASELINES)]
            share = "–" if works[i] is None else f"{works[i]:.2f}"
            rows.append([GAMES[game] if i == 0 else "", step, share, *counts])
    text = (
        "The packaged predictor while the packaged agent plays (ε = 0.05). *Keys work*: share of windows in which two\n"
        "opposite actions, each held for some steps inside the prediction, lead nearer to their own true future than\n"
        "to the other's. Wrong pixels of 33,600, beside both baselines."
    )
    return text, ("game", "step", "keys work", "wrong pixels", "copying the last frame", "mean frame"), rows


def rounded(value: float) -> str:
    """Return a count with a decimal where it is small."""
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def agents(body: dict[str, Any]) -> Rows:
    """Return the scores of the packaged agents."""
    rows, published = [], {atari_games()[env_id]: score for env_id, score in DQN_SCORES.items()}
    for game, result in body["agents"].items():
        best, scores = result["constant"], result["references"].rpartition("random ")[2]
        constant = f"{best['action']} {best['mean']:,.1f} ± {best['standard_error']:.1f}"
        paper, error = published[game]
        score = result["score"].partition(" (")[0]
        rows.append([GAMES[game], score, constant, scores, f"{paper:,.10g} ± {error:g}"])
    minutes = f"{body['minutes']:g} minutes of learning on one core"
    text = (
        f"The packaged agents after {minutes}: mean ± standard error of 30 episodes. *Paper*: its DQN\n"
        "with random exploration, 100 episodes (table 1)."
    )
    return text, ("game", "score", "best constant action", "random", "paper"), rows


def recording(body: dict[str, Any]) -> Rows:
    """Return size and speed of datasets."""
    rows: list[Sequence[object]] = []
    for game, result in body["games"].items():
        sizes = (result["bytes a frame"], result["bytes a frame, PNG folders"], result["episodes replayed bit for bit"])
        speeds = (result[key]["store, palette indices"] for key in ("window frames/s", "times faster than PNG folders"))
        rows.append([GAMES[game], *sizes, *speeds, result["collection time / bare emulator time"]])
    heads = (
        "game", "bytes a frame", "as PNG files", "episodes replayed bit for bit", "frames per second of windows",
        "times the speed of PNG files", "recording time / bare emulator",
    )  # fmt: skip
    return f"{body['what']}.", heads, rows


def prediction(body: dict[str, Any]) -> Rows:
    """Return the speed of the packaged predictors."""
    rows = [
        [GAMES[case["game"]], case["batch"], case["frames_per_second"], f"{100 * case['fraction_of_peak']:.0f} %"]
        for case in body["cases"]
    ]
    text = (
        f"Frames that the packaged predictors predict per second, {body['threads']} threads; and the share of what\n"
        "the arithmetic alone would allow."
    )
    return text, ("game", "batch", "frames per second", "share of peak"), rows


def training(body: dict[str, Any]) -> Rows:
    """Return the speed of training."""
    keys = ("preset", "model", "view", "predicted steps", "batch", "updates a second", "frames predicted a second")
    rows: list[Sequence[object]] = [[phase[key] for key in keys] for phase in body["phases"]]
    heads = (*keys[:5], "updates per second", "frames predicted per second")
    return f"Training of the paper's networks, {body['threads']} thread.", heads, rows


def page_speed(body: dict[str, Any]) -> Rows:
    """Return what the play page reaches."""
    served, delay = body["served"], body["served"]["key to picture, ms"]
    memory = served["server memory, MB"]
    rows: list[Sequence[object]] = [
        ["pictures per second", served["pictures a second"]],
        ["key to picture, median / 95th percentile", f"{delay['median']:g} / {delay['p95']:g} ms"],
        [f"memory of the server, early / after {served['seconds']:.0f} seconds",
         f"{memory['settled']} / {memory['end']} MB"],
    ]  # fmt: skip
    others = body.get("other games served", {})
    rows += [[f"pictures per second, `{name}`", game["pictures a second"]] for name, game in others.items()]
    rows += _static_rates(body["static"])
    text = f"`acvp play` with the packaged predictor of {GAMES[body['predictor']]}, browser and server on one machine."
    return text, ("", ""), rows


def _static_rates(static: dict[str, Any]) -> list[Sequence[object]]:
    """Return the rates of the page without a server; an early version measured one game."""
    if "games" not in static:
        return [["static page of an early version: steps per second", static["steps a second"]]]
    return [[f"gallery, steps per second: `{name}`", game["steps a second"]] for name, game in static["games"].items()]


def gallery(body: dict[str, Any]) -> Rows:
    """Return how fast the games of the gallery are, by the clock and by what a step needs of a processor."""
    rows = [
        [f"`{name}`", game["the same in one thread"], game["time of the processor, ms a step"],
         game["steps a second"], game["load of the machine"]]
        for name, game in body["static"]["games"].items()
    ]  # fmt: skip
    real = body["static"]["real time, steps a second"]
    text = (
        f"The games of `make gallery` in Chromium without a GPU, as fast as they can. Real time is {real} steps a\n"
        f"second: {1000 / real:.0f} ms for a step. Where the load is above the number of cores, other programs took\n"
        "their share, and threads wait for each other: then what one thread needs says most, and the rate by the clock is\n"
        "none to expect."
    )
    heads = (
        "predictor",
        "ms of a processor per step, one thread",
        "all threads",
        "steps per second by the clock",
        "load",
    )
    return text, heads, rows


SECTIONS: tuple[tuple[str, str, Callable[[dict[str, Any]], Rows]], ...] = (
    ("Agents", "agents", agents),
    ("Recording", "data", recording),
    ("Prediction", "pixel_speed", prediction),
    ("Training", "training", training),
    ("Play", "play", page_speed),
    ("Gallery", "gallery", gallery),
)
"""Title, file and table of every section with one file."""


def sections() -> Iterator[str]:
    """Yield the sections of the page whose results are there."""
    results = judged()
    if results:
        text, heads, rows = playing(results)
        sources = "\n".join(f"- {source(result.file, result.body)}" for result in results.values())
        yield f"## While an agent plays\n{text}\n\n{table(heads, rows)}\n\n{sources}\n"
    for title, name, make in SECTIONS:
        file = RESULTS / f"{name}.json"
        if file.exists():
            body = json.loads(file.read_text())
            text, heads, rows = make(body)
            yield f"## {title}\n{text}\n\n{table(heads, rows)}\n\n{source(file, body)}\n"


def page() -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *sections()])


NEWCOMER = """# A newcomer's log

From a fresh clone to playing each of the five games: every command, and how long it took. `python -m
benchmarks.newcomer` did this with an empty environment and a real browser; this page is made from its results and not
edited.
"""
UNMEASURED = """# A newcomer's log

From a fresh clone to playing each of the five games. How long each command takes is not given: it was measured only
once, on a busy machine and with a changed tree. `python -m benchmarks.newcomer` measures it and writes
`results/newcomer.json`, from which this page is made.

```
git clone <this repository> acvp
cd acvp
make install
.venv/bin/acvp play --predictors {first}          # or {others}
```
"""
NEXT = """
`make play` installs, and opens all games at once. With a game on the screen:

1. Watch the real game and the dream beside it. Press an arrow key: both worlds obey.
2. Watch *wrong pixels* while you play. Press `r` to give the predictor real frames again.
3. Press `g`: what would every action lead to?
4. Press `p` for the next predictor, `m` to let the agent play, `?` for all keys.

Then train your own: `make demo` trains for eight minutes, the [quickstart](quickstart.md) for two.
"""


BUSY = """
**The machine, with {cores} cores, was busy with other work: its load was {load} (at start, before the games, at the
end). Seconds of the processor say what the commands need; seconds by the clock are no times to expect.**
"""


def newcomer() -> str:
    """Return the page about the first minutes, without times where none were measured at a clean commit."""
    file = RESULTS / "newcomer.json"
    if not file.exists():
        first, *others = loaded.best_packaged()
        return "\n".join([UNMEASURED.format(first=first, others=", ".join(others)), NEXT])
    body = json.loads(file.read_text())
    steps = [[f"`{step['command']}`", step["processor seconds"], step["seconds"]] for step in body["steps"]]
    games = [
        [f"`{game['command']}`", game["processor seconds"], game["page"], game["dream"]]
        for game in body["games"].values()
    ]
    return "\n".join([
        NEWCOMER + busy(body["cores"], body["load at start, before the games, at the end"]),
        table(("command", "seconds of the processor", "by the clock"), steps), "",
        table(("command", "seconds of the processor", "page served, by the clock", "dream moves"), games), "",
        source(file, body), NEXT,
    ])  # fmt: skip


def busy(cores: int, load: Sequence[float]) -> str:
    """Return a warning where, before anything was measured, more waited for the processor than it has cores."""
    return BUSY.format(cores=cores, load=", ".join(f"{value:g}" for value in load)) if load[0] > cores else ""


PAGES = {"benchmarks.md": page, "newcomer.md": newcomer}
"""Pages of docs/ that are made from results."""


def main() -> None:
    """Write the pages."""
    for name, make in PAGES.items():
        (DOCS / name).write_text(make())
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
