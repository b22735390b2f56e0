"""Promise 19: numbers that are not finite or do not fit are refused on the way in, from files, games and options."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from acvp.cli.main import SUMMARIES, load_verb, main
from acvp.data.collect import CollectConfig, collect
from acvp.data.formats import export_store, import_store
from acvp.data.recording import EpisodeRecorder
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from tests.data.answers import answer_store
from tests.faults import Trials, counted

WRONG_REWARDS = (nan, inf, -inf, 1e300, -1e300)
WRONG_LIVES = (10**9, 2**15, -2, -(10**9))
WRONG_ACTIONS = (-1, 10**9, 2**15)

HARMLESS = {
    "CollectConfig.episodes", "frames", "max_steps", "AgentTrainConfig.steps", "LearnConfig.budget",
    "LearnConfig.agent_steps", "map_steps", "keep", "seed",
}  # fmt: skip
"""Options that may be 10⁹: a long run that can be stopped, any seed."""
REQUIRED: dict[str, Any] = {
    "env_id": "toy", "out": Path("out"), "source": Path("source"), "data": Path("data"),
    "format": "npz", "runs": (Path("run"),), "predictors": (Path("run"),), "predictor": Path("run"),
    "agent": "freeway", "onnx": Path("onnx"), "run": Path("run"),
}  # fmt: skip


def numbers(hint: Any) -> set[type]:
    """The number types that an option may have: of itself, or of the items of its tuple."""
    if get_origin(hint) is Annotated:
        return numbers(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType, tuple):
        return set().union(*(numbers(each) for each in get_args(hint) if each is not ...))
    return {hint} if hint in (int, float) else set()


def options() -> Iterator[tuple[type[Any], str, bool, Any]]:
    """Every numeric option of every verb with every value that it should not take: class, name, is a tuple, value."""
    for verb in (load_verb(name).options for name in SUMMARIES):
        hints = get_type_hints(verb, include_extras=True)
        for field in fields(verb):
            kinds = numbers(hints[field.name])
            values = [-1, 10**9, 10**30, 10**5000] if kinds == {int} else [nan, inf, -inf, 1e300, 1e9, -1.0]
            for value in values if kinds else ():
                hint = hints[field.name]
                bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
                yield verb, field.name, get_origin(bare) is tuple, value


OPTIONS = list(options())


def make(verb: type[Any], **changed: Any) -> Any:
    """A configuration in which only some options are unusual."""
    required = {each.name for each in fields(verb) if each.default is MISSING and each.default_factory is MISSING}
    usual = {name: REQUIRED[name] for name in required}
    if verb.__name__ == "PredictorExportConfig":
        usual["onnx"] = REQUIRED["onnx"]
    if verb.__name__ == "AgentEvaluateConfig":
        usual["agent"] = REQUIRED["agent"]
    if changed.keys() & {"delta", "look_ahead"} and verb.__name__ == "AgentTrainConfig":
        usual["exploration"] = "informed-emulator"
    return verb(**(usual | changed))


@counted("19 options beyond any use are refused", quick=len(OPTIONS), full=len(OPTIONS))
def test_every_numeric_option_has_bounds(trials: Trials) -> None:
    def once(i: int, rng: np.random.Generator) -> None:
        verb, name, many, value = OPTIONS[i]
        make(verb)
        if HARMLESS & {name, f"{verb.__name__}.{name}"} and value == 10**9:
            make(verb, **{name: value})
            return
        with pytest.raises(UserError, match=rf"^--{name.replace('_', '-')} \S[^\n]*$"):
            make(verb, **{name: (value,) if many else value})

    assert len(OPTIONS) > 150
    trials.run(once)


@pytest.mark.parametrize(
    "arguments",
    [
        ["collect", "--env-id", "toy", "--out", "s", "--workers", "1000000"],
        ["collect", "--env-id", "toy", "--out", "s", "--epsilon", "nan"],
        ["train", "--data", "s", "--minutes", "nan"],
        ["train", "--data", "s", "--minutes", "inf"],
        ["agent", "train", "--env-id", "toy", "--minutes", "1e300"],
        ["evaluate", "--predictors", "r", "--data", "s", "--strip", "1-99999999999999"],
        ["data", "import", "x", "--format", "npz", "--out", "s", "--actions", "1000000000"],
    ],
    ids=" ".join,
)
def test_the_command_line_refuses_them_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert arguments[-2] in printed


def npz(folder: Path, **changed: Any) -> None:
    """An episode of six frames, one of its arrays changed."""
    usual: dict[str, Any] = {"frames": np.zeros((6, 4, 4, 3), np.uint8), "actions": np.zeros(5, np.int64)}
    np.savez(folder / "source.npz", **(usual | changed))


def minari(folder: Path, **changed: Any) -> None:
    """The same as a Minari dataset."""
    pytest.importorskip("minari")
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    (folder / "source" / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        folder / "source" / "data",
        observation_space=spaces.Box(0, 255, (4, 4, 3), np.uint8),
        action_space=spaces.Discrete(3),
        jpeg_encoding=False,
    )
    storage.update_metadata({"dataset_id": "others/thing-v1", "minari_version": "0.5.3"})
    lives = {"infos": {"lives": changed.pop("lives")}} if "lives" in changed else {}
    flags = np.zeros(5, bool)
    usual = {"observations": np.zeros((6, 4, 4, 3), np.uint8), "actions": np.zeros(5, np.int64),
             "rewards": np.zeros(5), "terminations": flags, "truncations": flags}  # fmt: skip
    storage.update_episodes([EpisodeBuffer(id=0, **(usual | changed | lives))])
    storage.update_episode_metadata([{"total_steps": 5}], [0])


def video(folder: Path, actions: Any = None, rewards: Any = None) -> None:
    """The same as a video with a table."""
    pytest.importorskip("av")
    export_store("video", answer_store(folder / "store", [6]), folder / "source")
    table = folder / "source" / "episode_000000.csv"
    actions, rewards = (np.zeros(5, int) if each is None else each for each in (actions, rewards))
    lines = [f"{action},{reward!r}" for action, reward in zip(actions.tolist(), rewards.tolist(), strict=True)]
    table.write_text("\n".join(["action,reward", *lines]) + "\n")


def authors(folder: Path, actions: Any) -> None:
    """The same in the authors' layout."""
    export_store("authors", answer_store(folder / "store", [6]), folder / "source")
    (folder / "source" / "train" / "0000" / "act.log").write_text("".join(f"{each}\n" for each in actions.tolist()))


def with_wrong(value: float, length: int, at: int = 2) -> Any:
    """Zeros with one wrong value among them."""
    array = np.zeros(length, np.float64 if isinstance(value, float) else np.int64)
    array[at] = value
    return array


def imports() -> Iterator[tuple[str, Callable[..., None], dict[str, Any]]]:
    """Every wrong number in every format that can hold it."""
    writers: dict[str, Callable[..., None]] = {"npz": npz, "minari": minari, "video": video, "authors": authors}
    for name, write in writers.items():
        yield from ((name, write, {"actions": with_wrong(value, 5)}) for value in WRONG_ACTIONS)
        if write is not authors:
            yield from ((name, write, {"rewards": with_wrong(value, 5)}) for value in WRONG_REWARDS)
        if write in (npz, minari):
            yield from ((name, write, {"lives": with_wrong(value, 6)}) for value in WRONG_LIVES)


IMPORTS = list(imports())


@counted("19 numbers that do not fit are not imported", quick=len(IMPORTS), full=len(IMPORTS))
def test_no_import_takes_a_number_that_does_not_fit(trials: Trials, tmp_path: Path) -> None:
    def once(i: int, rng: np.random.Generator) -> None:
        format, write, changed = IMPORTS[i]
        folder = tmp_path / str(i)
        folder.mkdir()
        write(folder, **changed)
        source = folder / ("source.npz" if format == "npz" else "source")
        with pytest.raises(UserError, match=r"out of range|rewards are finite|lives; 0 to|its space ends"):
            import_store(format, source, folder / "out")
        out = folder / "out"
        assert not (out / "store.json").exists() or len(EpisodeStore(out)) == 0

    trials.run(once)


def test_the_largest_numbers_that_fit_are_imported(tmp_path: Path) -> None:
    largest = float(np.finfo(np.float32).max)
    npz(tmp_path, rewards=with_wrong(largest, 5), lives=with_wrong(2**15 - 1, 6), actions=with_wrong(2**15 - 1, 5))
    (store,) = import_store("npz", tmp_path / "source.npz", tmp_path / "out")
    assert store[0].rewards[2] == largest
    assert store[0].lives[2] == store[0].actions[2] == 2**15 - 1


class Wrong(gymnasium.Env[Any, Any]):
    """A game in which one thing is wrong at its third step."""

    observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, **wrong: Any) -> None:
        self._wrong, self._steps = wrong, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return np.zeros((4, 4, 3), np.uint8), {"lives": 3}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._steps += 1
        told: dict[str, Any] = {"frame": np.zeros((4, 4, 3), np.uint8), "reward": 0.0, "lives": 3}
        told |= self._wrong if self._steps == 3 else {}
        return told["frame"], told["reward"], self._steps == 5, False, {"lives": told["lives"]}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        *(({"reward": value}, "reward") for value in (*WRONG_REWARDS, None, "x")),
        *(({"lives": value}, "lives") for value in (*WRONG_LIVES, nan, inf, None)),
        ({"frame": np.zeros((4, 4), np.uint8)}, "shape"),
        ({"frame": np.zeros((4, 4, 3), np.float32)}, "float32"),
        ({"frame": [[0]]}, "list"),
    ],
    ids=str,
)
def test_a_game_that_returns_nonsense_is_not_recorded(
    wrong: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_id = "acvp-tests/Wrong-v0"
    monkeypatch.setitem(gymnasium.registry, env_id, EnvSpec(env_id, entry_point=f"{__name__}:Wrong", kwargs=wrong))
    with pytest.raises(UserError, match=told):
        collect(CollectConfig(env_id=env_id, out=tmp_path / "store", frames=5))
    assert len(EpisodeStore(tmp_path / "store")) == 0


@pytest.mark.parametrize("step", [(-1, 0.0, 0), (2**15, 0.0, 0), (0, nan, 0), (0, 1e39, 0), (0, 0.0, 2**15)])
def test_the_recorder_refuses_what_a_part_cannot_hold(step: tuple[int, float, int]) -> None:
    recorder, frame = EpisodeRecorder(), np.zeros((4, 4, 3), np.uint8)
    recorder.start(frame)
    action, reward, lives = step
    with pytest.raises(UserError, match="step 1: "):
        recorder.step(action, reward, frame, lives=lives)
