"""Results of tiny seeded runs of every verb, to prove that a change of the code leaves them as they are.

    python -m tests.golden --write FILE     run everything and record the results
    python -m tests.golden --compare FILE   run everything and print what differs from the record; exit code 1 if any

It drives acvp through its command line and its public names only, so that it runs on any layout of the source tree.
On the processor and the versions of the record, every bit must be equal; elsewhere counts must be equal, floats close
and most pixels equal. Texts, times, commits, machines and paths are not compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import compress, decompress

import gymnasium
import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray

import acvp

# --- Names that may change with the source tree -----------------------------------------------------------------------

GAMES = ("freeway", "ms_pacman", "qbert", "seaquest", "space_invaders")
"""The predictors that come with acvp, named after their games."""
MODELS = ("pixel", "feedforward", "recurrent", "no-action", "mlp")

COMMANDS = {
    "collect-toy": "collect --env-id acvp/Toy-v0 --frames 300 --max-steps 60 --out toy",
    "collect-workers": "collect --env-id acvp/Toy-v0 --frames 200 --sticky 0.25 --seed 5 --workers 2 --out sticky",
    **{f"collect-{game}": f"collect --env-id {game} --frames 60 --max-steps 60 --out {game}" for game in GAMES},
    "collect-freeway": "collect --env-id freeway --frames 300 --max-steps 100 --out freeway",
    **{f"train-{model}": f"train --data toy --model {model} --preset smoke --run {model}" for model in MODELS},
    "train-pixel": "train --data toy --model pixel --preset smoke --run pixel --predictor.predict-lives false"
    " --calibration-steps 0",
    "evaluate": "evaluate --predictors pixel feedforward recurrent no-action mlp --data toy --horizon 6"
    " --windows 8 --shuffled-windows 4 --videos 0 --out evaluate",
    "counterfactual": "counterfactual --predictors pixel feedforward --data toy --states 6 --steps 2"
    " --out counterfactual",
    "analyze": "analyze --predictor feedforward --data toy --states 4 --examples 1 --out analyze",
    "agent-train": "agent train --env-id acvp/Toy-v0 --preset smoke --steps 800 --run agent",
    "agent-imagined": "agent train --env-id acvp/Toy-v0 --preset smoke --steps 400 --imagined pixel --data toy"
    " --max-steps 20 --run agent-imagined",
    "agent-evaluate": "agent evaluate --agent freeway --episodes 2 --max-steps 60 --out agent-evaluate",
    "control": "control --predictors pixel --agent agent --episodes 6 --horizons 1 3 --max-steps 60 --out control",
    "explore": "explore --env-id acvp/Toy-v0 --predictor pixel --seeds 2 --max-steps 60 --map-steps 30 --map-seeds 1"
    " --out explore",
}
"""The command lines in their order; each runs in the folder that holds what those before it made."""

STORES = {case: line.split()[-1] for case, line in COMMANDS.items() if case.startswith("collect-")}
WEIGHTS = {
    **{f"train-{model}": f"{model}/predictor/model.safetensors" for model in MODELS},
    "agent-train": "agent/agent/model.safetensors",
    "agent-imagined": "agent-imagined/agent/model.safetensors",
}
NUMBERS = {
    **{f"train-{model}": f"{model}/metrics.jsonl" for model in MODELS},
    "evaluate": "evaluate/evaluation.json",
    "counterfactual": "counterfactual/counterfactual.json",
    "analyze": "analyze/analysis.json",
    "agent-train": "agent/metrics.jsonl",
    "agent-imagined": "agent-imagined/metrics.jsonl",
    "agent-evaluate": "agent-evaluate/agent-evaluation.json",
    "control": "control/control.json",
    "explore": "explore/explore.json",
}
"""Files whose numbers are compared."""
RENAMED: dict[str, str] = {
    "centered": "centred",
    "control:episodes": "plays", "control:steps": "decisions", "control:horizon": "depth", "control:horizons": "depths",
    "agent-evaluate:episodes": "plays", "agent-evaluate:steps": "decisions", "explore:steps": "decisions",
    "explore:max_steps": "max_decisions", "explore:map_steps": "map_decisions",
}  # fmt: skip
"""Keys of those files that have changed since the record was made, in all cases or in one (case:key) → the key in the
record; "": left out of the path."""
NOT_RESULTS = {"provenance", "seconds", "cpu_seconds", "samples_per_second", "peak_memory_mb", "loss_parts"}
"""Keys that are not compared; `loss_parts` is younger than the record."""
IMAGINED_ENV = "acvp.control:acvp/Imagined-v0"
IMAGINED_OPTIONS: dict[str, Any] = {"predictor": "pixel", "data": "toy", "horizon": 12}

# --- What is recorded -------------------------------------------------------------------------------------------------

BY_A_NETWORK = {
    *(f"train-{model}" for model in MODELS), "evaluate", "counterfactual", "analyze", "agent-train", "agent-imagined",
    "control", "explore",
}  # fmt: skip
"""Cases in which a network decides that was trained here: rounding grows with every update."""
BY_CHANCE = re.compile(
    r"train-.*/wrong/|evaluate/outcomes/|(wrong_pixels|exact|object_\w+|accuracy\w*)/|agent-(train|imagined)/.*"
    r"(mean|standard_error|scores)$|control/(runs|emulator)/|explore/.*informed-model/"
)
"""Counts and scores (case/name) that jump where rounding tips a trained network's choice: compared bit for bit only."""
RTOL = 0.05
"""Largest difference of floats on another machine, relative to the largest number of their list."""
BY_CHOSEN_COLORS = re.compile(r"train-pixel/.*/(error|mse|score)|counterfactual/runs/pixel/margin/")
"""Errors of frames whose colors were chosen, which jump less than counts: with AVX2 they differ by up to 9 % from those
that were recorded with AVX-512."""
RTOL_OF_CHOSEN = 0.2
"""Largest difference of these, relative to the largest number of their list."""
EQUAL_PIXELS = 0.99
"""Smallest share of equal pixels in a predicted frame on another machine."""
LARGEST_LIST = 50
"""Numbers of a list that is recorded as it is; of a longer one mean and digest are."""
VERSIONS = ("torch", "numpy", "ale-py", "gymnasium", "numcodecs", "opencv-python-headless", "stable-baselines3")
STEPS = 5
"""Steps of the rollouts."""
WARM_UP = 40
"""Real frames before them."""


@dataclass
class Result:
    """What a case gave, sorted by how far it may be compared."""

    exact: dict[str, Any] = field(default_factory=dict)
    """Equal on every machine."""
    by_version: dict[str, str] = field(default_factory=dict)
    """Equal where the libraries have the same versions: files that they compressed."""
    bits: dict[str, str] = field(default_factory=dict)
    """Equal on the same processor with the same versions."""
    numbers: dict[str, Any] = field(default_factory=dict)
    """Equal there, close elsewhere."""
    frames: dict[str, str] = field(default_factory=dict)
    """Compressed frames: equal there, nearly so elsewhere."""


def machine() -> dict[str, Any]:
    """Return what decides the last bits of floats: processor and versions."""
    return {"processor": _processor(), "versions": {name: version(name) for name in VERSIONS}}


def _processor() -> str:
    """Return the instruction set that torch uses, and the kind of processor, by which other libraries choose theirs."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(
        reversed([[part.strip() for part in line.split(":", 1)] for line in text.splitlines() if ":" in line])
    )
    kind = " ".join(fields.get(name, "?") for name in ("vendor_id", "cpu family", "model"))
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {kind}"


def measure(folder: Path, report: Callable[[str], None] = lambda case: None) -> dict[str, Any]:
    """Run everything in an empty folder and return the record."""
    results = {}
    for case, line in COMMANDS.items():
        report(case)
        run(line, folder)
        results[case] = _result(case, folder)
    with one_thread():
        for game in GAMES:
            report(f"rollout-{game}")
            results[f"rollout-{game}"] = rollout(game, folder)
        report("imagined-env")
        results["imagined-env"] = imagined_env(folder)
    return {"machine": machine(), "results": {case: asdict(result) for case, result in results.items()}}


def run(line: str, folder: Path) -> None:
    """Run a command line in a folder, with one thread, as a user would."""
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "acvp", *line.split()]
    done = subprocess.run(command, cwd=folder, env=os.environ | one, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"acvp {line} ended with {done.returncode}:\n{done.stdout}{done.stderr}"


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, for sums depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _result(case: str, folder: Path) -> Result:
    """Collect what a command has written."""
    result = Result()
    if case in STORES:
        _add_store(result, folder / STORES[case])
    if case in WEIGHTS:
        _add_weights(result, folder / WEIGHTS[case])
    if case in NUMBERS:
        _add_numbers(result, case, folder / NUMBERS[case])
    return result


def _add_store(result: Result, path: Path) -> None:
    store = acvp.EpisodeStore(path)
    result.exact["frames"] = [len(episode) for episode in store]
    for name in ("actions", "rewards", "lives"):
        result.exact[name] = digest(*(getattr(episode, name) for episode in store))
    result.exact["pixels"] = digest(*(episode.frames() for episode in store))
    for file in sorted((path / "episodes").iterdir()):
        result.by_version[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    result.by_version["index"] = hashlib.sha256((path / "index.jsonl").read_bytes()).hexdigest()


def _add_weights(result: Result, file: Path) -> None:
    """Add the tensors whatever their names are, and their number and size."""
    tensors = safetensors.numpy.load_file(file)
    result.exact["weights"] = sorted(tensor.size for tensor in tensors.values())
    digests = sorted(digest(tensor) for tensor in tensors.values())
    result.bits["weights"] = hashlib.sha256("".join(digests).encode()).hexdigest()


def _add_numbers(result: Result, case: str, file: Path) -> None:
    text = file.read_text()
    body = list(map(json.loads, text.splitlines())) if file.suffix == ".jsonl" else json.loads(text)
    for path, value in flatten(case, body):
        array = np.array(value, dtype=float) if isinstance(value, list) else np.zeros(0)
        if array.size > LARGEST_LIST:
            result.bits[path], value = digest(array), float(np.nanmean(array))
        result.numbers[path] = value


def flatten(case: str, value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every number and every list of numbers, with the keys that lead to it; None is a number here."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key not in NOT_RESULTS:
                name = RENAMED.get(f"{case}:{key}", RENAMED.get(key, key))
                yield from flatten(case, part, (*path, name) if name else path)
    elif isinstance(value, list) and not _numeric(value):
        for number, part in enumerate(value):
            yield from flatten(case, part, (*path, str(number)))
    elif not isinstance(value, str) and value != []:
        yield "/".join(path), value


def _numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_numeric, value)) and len({len(part) if isinstance(part, list) else -1 for part in value}) <= 1
    return value is None or isinstance(value, int | float)


def rollout(game: str, folder: Path) -> Result:
    """Look ahead with a predictor of the package, from recorded frames under the recorded actions."""
    predictor, episode = acvp.load(game), acvp.EpisodeStore(folder / game)[0]
    actions = episode.actions[WARM_UP - 1 : WARM_UP - 1 + STEPS]
    future = acvp.rollout(predictor, episode.frames(0, WARM_UP), actions)
    return Result(bits={"frames": digest(future)}, frames={"last": pack(future[-1])})


def imagined_env(folder: Path) -> Result:
    """Play in the imagined env with a fixed seed."""
    options: dict[str, Any] = {
        name: str(folder / value) if isinstance(value, str) else value for name, value in IMAGINED_OPTIONS.items()
    }
    env = gymnasium.make(IMAGINED_ENV, **options)
    frame, _ = env.reset(seed=3)
    result = Result(exact={"start": digest(frame)})
    frames, outcomes = [], []
    for action in np.random.default_rng(4).integers(env.action_space.n, size=10):  # type: ignore[attr-defined]
        frame, reward, terminated, truncated, _ = env.step(action)
        frames.append(frame)
        outcomes.append([float(reward), terminated, truncated])
        if terminated or truncated:
            env.reset()
    env.close()
    result.bits = {"frames": digest(*frames), "outcomes": digest(np.array(outcomes, float))}
    result.frames["first"] = pack(frames[0])
    return result


def digest(*arrays: NDArray[Any]) -> str:
    """Return a hash of dtypes, shapes and bytes."""
    parts = [f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes() for array in arrays]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def pack(frame: NDArray[np.uint8]) -> str:
    """Return a frame (H, W, C) as text."""
    return f"{'x'.join(map(str, frame.shape))}:{b64encode(compress(frame.tobytes(), 9)).decode()}"


def unpack(text: str) -> NDArray[np.uint8]:
    """Return the frame that a text holds."""
    shape, _, data = text.partition(":")
    return np.frombuffer(decompress(b64decode(data)), np.uint8).reshape(tuple(map(int, shape.split("x"))))


# --- Comparison -------------------------------------------------------------------------------------------------------


def differences(recorded: dict[str, Any], measured: dict[str, Any]) -> list[str]:
    """Return a line for everything in a record that was measured otherwise, as far as the two machines allow."""
    same_versions = recorded["machine"]["versions"] == measured["machine"]["versions"]
    same_bits = recorded["machine"] == measured["machine"]
    old, new = recorded["results"], measured["results"]
    lines = [f"{case}: only in one of the two" for case in sorted(old.keys() ^ new.keys())]
    for case in [case for case in old if case in new]:
        for kind, equal in _rules(case, same_versions=same_versions, same_bits=same_bits):
            for name in sorted(old[case][kind].keys() | new[case][kind].keys()):
                if kind == "numbers" and not same_bits and BY_CHANCE.search(f"{case}/{name}"):
                    continue
                before, after = (side[case][kind].get(name, "missing") for side in (old, new))
                jumps = kind == "numbers" and not same_bits and BY_CHOSEN_COLORS.search(f"{case}/{name}")
                if not (roughly(before, after, RTOL_OF_CHOSEN) if jumps else equal(before, after)):
                    lines.append(f"{case}: {kind} {name}: was {str(before)[:100]}, is {str(after)[:100]}")
    return lines


Equal = Callable[[Any, Any], bool]


def _rules(case: str, *, same_versions: bool, same_bits: bool) -> list[tuple[str, Equal]]:
    """Return how each kind of result is compared; a kind that cannot be compared is left out."""
    rules: list[tuple[str, Equal]] = [("exact", same)]
    rules += [("by_version", same)] if same_versions else []
    if same_bits:
        return [*rules, ("bits", same), ("numbers", same), ("frames", same)]
    return [*rules, ("numbers", roughly if case in BY_A_NETWORK else close), ("frames", alike)]


def same(before: Any, after: Any) -> bool:
    """Whether two results are equal, number types included."""
    return json.dumps(before) == json.dumps(after)


def close(before: Any, after: Any) -> bool:
    """Whether integers are equal, and floats but for rounding."""
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(close, before, after))
    if isinstance(before, float) and isinstance(after, float):
        return bool(np.isclose(before, after, rtol=1e-6))
    return same(before, after)


def roughly(before: Any, after: Any, tolerance: float = RTOL) -> bool:
    """Whether integers are equal, and floats are those of the same training on another processor."""
    if isinstance(before, int | str) or isinstance(after, str):
        return same(before, after)
    one, other = np.array(before, float), np.array(after, float)
    if one.shape != other.shape:
        return False
    scale = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    return bool(np.allclose(one, other, rtol=0, atol=tolerance * scale, equal_nan=True))


def alike(before: str, after: str) -> bool:
    """Whether two frames have nearly all pixels in common."""
    if "missing" in (before, after):
        return False
    one, other = unpack(before), unpack(after)
    return one.shape == other.shape and float((one == other).all(-1).mean()) >= EQUAL_PIXELS


def main() -> int:
    """Record, or compare with a record."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="record the results in this file")
    action.add_argument("--compare", type=Path, metavar="FILE", help="print what differs from the record in this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(Path(folder), lambda case: print(case, file=sys.stderr, flush=True))
    if options.write:
        options.write.write_text(as_text(measured))
        return 0
    recorded = json.loads(options.compare.read_text())
    lines = differences(recorded, measured)
    how = "bit for bit" if recorded["machine"] == measured["machine"] else "with tolerances: another machine"
    print("\n".join([*lines, f"{len(measured['results'])} cases compared {how}: {len(lines)} differences"]))
    return int(bool(lines))


def as_text(record: dict[str, Any]) -> str:
    """Return a record as JSON with a line per case."""
    cases = ",\n".join(f"{json.dumps(case)}: {json.dumps(result)}" for case, result in record["results"].items())
    return f'{{"machine": {json.dumps(record["machine"])},\n"results": {{\n{cases}\n}}}}\n'


if __name__ == "__main__":
    sys.exit(main())
