"""Predictors as ONNX graphs and as a folder of web pages."""

from __future__ import annotations

import copy
import gzip
import json
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from acvp.agents.agent import agent_view, load_agent
from acvp.cli.main import main
from acvp.data.store import EpisodeStore
from acvp.envs.toy import TOY_ID
from acvp.errors import UserError
from acvp.models import About, Predictor, build_predictor, config_class, predictor_files, rollout
from acvp.pixel.predictor import PixelPredictor
from acvp.play import onnx, static_page
from acvp.play.onnx import Graphs, OnnxPredictor, agent_graph, compare, example_frames, to_graphs
from acvp.play.static_page import RUNTIME_NAMES, runtime_files
from tests.play.sessions import MEANINGS

PALETTE = ((0, 0, 0), (110, 110, 110), (230, 200, 40), (60, 200, 80), (220, 60, 60), (240, 240, 240))
NETWORK: dict[str, Any] = {
    "channels": (6, 6), "kernels": (4, 4), "pads": ((1, 1), (1, 1)), "strides": (2, 2), "decoder_channels": (6,),
    "hidden": 12, "factors": 12, "predict_rewards": True,
}  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {
    "feedforward": NETWORK,
    "recurrent": NETWORK | {"context": 3, "predict_rewards": False},
    "pixel": {
        "palette": PALETTE,
        "context": 4,
        "channels": (8, 12),
        "blocks": (1, 1),
        "embedding": 4,
        "cell": 5,
        "motions": ((0, 0), (2, -1), (0, 3)),
        "older_motions": ((0, 0), (-3, 1)),
        "palette_cycle": tuple(reversed(range(len(PALETTE)))),
        "circular_padding": True,
    },
    "no-action": {name: value for name, value in NETWORK.items() if name not in ("factors", "predict_rewards")},
    "mlp": {"hidden": (12,) * 4},
    "copy-last-frame": {},
    "mean-frame": {},
}


def small(kind: str) -> Predictor:
    """Return a small predictor for ToyGame with random weights that do something."""
    config = config_class(kind)(actions=5, frame=(24, 24, 3), **SIZES[kind])
    predictor = build_predictor(config, torch.Generator().manual_seed(3)).eval()
    draw = torch.Generator().manual_seed(4)
    for weight in predictor.parameters():
        weight.data += 0.1 * torch.randn(weight.shape, generator=draw)
    if isinstance(predictor, PixelPredictor):
        predictor.copy.bias.data.copy_(torch.tensor([0.5, 0.4, 0.3, 0.4, 0.3, 0.2]))  # so that pixels do change
        places = np.random.default_rng(5).random((len(PALETTE), 24, 24)) < 0.7
        places[0] = True
        predictor.set_palette_mask(places)
    predictor.about = About(env_id=TOY_ID, view="rgb", action_meanings=MEANINGS)
    return predictor


@pytest.fixture(scope="module")
def graphs() -> Callable[[str], tuple[Predictor, Graphs]]:
    made: dict[str, tuple[Predictor, Graphs]] = {}

    def make(kind: str) -> tuple[Predictor, Graphs]:
        if kind not in made:
            predictor = small(kind)
            made[kind] = predictor, to_graphs(predictor)
        return made[kind]

    return make


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIZES)
def test_predictions_in_onnx_are_those_of_torch(graphs: Callable[[str], tuple[Predictor, Graphs]], kind: str) -> None:
    predictor, made = graphs(kind)
    onnx, actions = OnnxPredictor(made), [1, 4, 0, 2, 2, 3, 1, 1, 0, 4, 3, 2]
    frames = example_frames(predictor).numpy()
    wanted = rollout(predictor, frames[0], np.array(actions))
    state, found = onnx.observe(frames), []
    for action in actions:
        given, state = onnx.step(state, np.eye(5, dtype=np.float32)[action][None])
        found.append(given["frame"][0])
    apart = np.abs(np.stack(found).astype(int) - wanted)
    assert apart.max() <= (0 if kind in ("pixel", "copy-last-frame", "mean-frame") else 1)
    assert made.outcome == ("reward" in given) == (kind in ("feedforward", "pixel"))
    if kind not in ("copy-last-frame", "mean-frame"):
        assert (np.stack(found)[1:] != np.stack(found)[:-1]).any(), "something happens in it"


@pytest.mark.slow
def test_a_graph_that_differs_is_refused(graphs: Callable[[str], tuple[Predictor, Graphs]]) -> None:
    predictor, made = graphs("recurrent")
    changed = copy.deepcopy(predictor)
    next(changed.parameters()).data += 0.01
    compare(predictor, made)
    with pytest.raises(UserError, match="differs from torch"):
        compare(changed, made)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a small predictor."""
    path = tmp_path / "tiny"
    path.mkdir()
    for name, data in predictor_files(small("copy-last-frame")).items():
        (path / name).write_bytes(data)
    return path


@pytest.mark.slow
def test_onnx_files_come_with_a_description(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["export", "--predictor", str(folder), "--onnx", str(out)]) == 0
    assert "the same as torch" in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == ["observe.onnx", "predictor.json", "step.onnx"]
    described = json.loads((out / "predictor.json").read_text())
    assert (described["name"], described["game"], described["actions"]) == ("tiny", TOY_ID, list(MEANINGS))
    assert (described["context"], described["frame"], described["state"], described["outcome"]) == (
        1,
        [24, 24, 3],
        ["frames"],
        False,
    )


@pytest.mark.parametrize("name", ["torch.onnx._internal.exporter._registration", "onnxscript.x", "onnx_ir"])
def test_the_log_of_the_exporter_is_silent_but_for_a_lack_of_memory(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    logger, printed = logging.getLogger(name), logging.StreamHandler(sys.stderr)
    parent = logging.getLogger(name.partition("._")[0].removesuffix(".x"))
    parent.addHandler(printed)  # as torch does
    try:
        with onnx._quiet():
            logged(logger, ValueError("passed over"))
            warnings.warn("of a version", stacklevel=1)
        assert (caplog.text, capfd.readouterr().err) == ("", "")
        with pytest.raises(MemoryError, match="ignored"), onnx._quiet():
            logged(logger, MemoryError("ignored"))
        assert (caplog.text, capfd.readouterr().err) == ("", "")
        logged(logger, ValueError("later"))
        assert "later" in capfd.readouterr().err
    finally:
        parent.removeHandler(printed)


def logged(logger: logging.Logger, error: Exception) -> None:
    """Log an error and ignore it, as the exporter does with operators that it cannot register."""
    try:
        raise error
    except Exception:
        logger.exception("Failed to register. Skipped")


@pytest.mark.parametrize(
    ("reason", "error"),
    [("No module named 'onnx'", UserError), ("onnx.so: failed to map segment from shared object", ImportError)],
)
def test_a_library_that_gets_no_memory_is_not_called_missing(
    reason: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "onnx":
                raise ImportError(reason)

    monkeypatch.delitem(sys.modules, "onnx", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    with pytest.raises(error, match=reason):
        onnx._require_onnx()


def test_starts_come_from_a_store_or_from_the_game(
    folder: Path, tmp_path: Path, toy: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = Graphs(observe=b"", step=b"", state=(), outcome=False)
    monkeypatch.setattr("acvp.play.static_page.to_graphs", lambda predictor: nothing)
    monkeypatch.setattr("acvp.play.static_page.runtime_files", lambda: {"x": b""})
    for name, options in {"played": [], "stored": ["--data", str(toy.path)]}.items():
        assert (
            main(["export", "--predictor", str(folder), "--web", str(tmp_path / name), "--starts", "3", *options]) == 0
        )
        assert json.loads((tmp_path / name / "tiny" / "predictor.json").read_text())["starts"] == 3
        frames = np.frombuffer(gzip.decompress((tmp_path / name / "tiny" / "starts.bin").read_bytes()), np.uint8)
        starts = frames.reshape(3, 1, 24, 24, 3)
        assert {tuple(color) for color in starts.reshape(-1, 3).tolist()} <= set(PALETTE)
        assert len({start.tobytes() for start in starts}) > 1
        assert b'data-source="onnx"' in (tmp_path / name / "index.html").read_bytes()


@pytest.mark.slow
def test_an_agent_in_onnx_acts_as_in_torch() -> None:
    import onnxruntime

    agent, shape = load_agent("freeway"), (210, 160, 3)
    session = onnxruntime.InferenceSession(agent_graph(agent, shape))
    rng, chosen = np.random.default_rng(0), set()
    for number in range(12):
        blocks = rng.integers(256, size=(1, 4, 21, 16, 3), dtype=np.uint8)  # a picture rather than noise
        frames = np.kron(blocks, np.ones((1, 1, 10, 10, 1), np.uint8))
        wanted = agent.act(agent_view(frames))
        assert session.run(None, {"frames": frames})[0].tolist() == wanted.tolist(), number
        chosen.add(int(wanted[0]))
    assert len(chosen) > 1


def test_a_frame_is_resized_by_area() -> None:
    frames = np.random.default_rng(1).integers(256, size=(1, 4, 210, 160, 3), dtype=np.uint8)
    view = onnx._Agent(load_agent("freeway"), 210, 160).view(torch.from_numpy(frames)).numpy()
    assert np.abs(view - agent_view(frames)).max() <= 1
    assert (view != agent_view(frames)).mean() < 0.001  # two ways to round a half


@pytest.mark.slow
def test_graphs_do_not_name_folders_of_the_machine(graphs: Callable[[str], tuple[Predictor, Graphs]]) -> None:
    _, made = graphs("recurrent")
    folders = {str(Path(module.__file__).parent).encode() for module in (onnx, torch)}
    for graph in (made.observe, made.step, agent_graph(load_agent("freeway"), (210, 160, 3))):
        assert b"Conv" in graph, "names of operations are text"
        assert [folder for folder in folders if folder in graph] == []


@pytest.mark.slow
def test_weights_of_16_bits_are_stored_in_16_bits(graphs: Callable[[str], tuple[Predictor, Graphs]]) -> None:
    predictor, whole = graphs("feedforward")
    rounded = copy.deepcopy(predictor)
    for weight in rounded.parameters():
        weight.data = weight.data.half().float()
    halved = to_graphs(rounded)  # compared with torch in it
    weights = sum(weight.numel() for weight in predictor.parameters())
    assert len(whole.step) - len(halved.step) > 1.5 * weights


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--onnx or --web"),
        (["--onnx", "full"], "choose another"),
        (["--onnx", "new", "--predictor", "nowhere"], "nowhere: no such folder"),
        (["--onnx", "new", "--predictor", "nobody"], "nobody"),
        (["--web", "new", "--starts", "0"], "--starts 0: at least 1"),
        (["--onnx", "new", "--predictors", "freeway", "qbert"], "--onnx takes one predictor, 2 are named"),
    ],
)
def test_mistakes_get_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert main(["export", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_without_npm_the_error_names_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="install Node"):
        runtime_files()


def test_another_runtime_than_the_known_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(static_page, "_fetch", lambda: b"something else")
    with pytest.raises(UserError, match="checksum"):
        runtime_files()
    assert list(tmp_path.iterdir()) == []


def test_the_runtime_is_kept_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib
    import io
    import tarfile

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in RUNTIME_NAMES:
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    fetched = []

    def fetch() -> bytes:
        fetched.append(1)
        return buffer.getvalue()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(static_page, "SHA256", hashlib.sha256(buffer.getvalue()).hexdigest())
    monkeypatch.setattr(static_page, "_fetch", fetch)
    assert runtime_files() == runtime_files()
    assert runtime_files()[RUNTIME_NAMES[0]] == RUNTIME_NAMES[0].encode()
    assert len(fetched) == 1
