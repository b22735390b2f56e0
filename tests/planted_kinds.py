"""A sound folder of every kind of file that acvp reads, and for each the verbs that read it."""

from __future__ import annotations

import io
import shutil
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path

import datasets
import pytest
from matplotlib.figure import Figure
from pyarrow import parquet

from acvp.agents import presets as agent_presets
from acvp.agents import run as agent_session
from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.formats import export_store
from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.play.app import session_maker
from acvp.play.config import PlayConfig
from acvp.report import page as report_page
from tests.agents import short_runs
from tests.agents.small import tiny_agent
from tests.analysis.conftest import small_feedforward
from tests.data.answers import answer_store
from tests.evaluation.runs import make_run
from tests.planting import (
    LINES,
    PLAIN,
    PREDICTOR,
    SEALED,
    Kind,
    Verb,
    command,
    part_texts,
    read_npz,
    read_state,
    restore_state,
    write_npz,
    write_part,
    write_state,
)
from tests.training import small

EVALUATED = ("--horizon", "3", "--windows", "3", "--shuffled-windows", "0", "--videos", "1", "--device", "cpu")
REPORT = command("report", "--runs", "{}/run", "--results", "{}/run", "--out", "{}/new/report.html")
CLAIMS = command("claims", "--results", "{}/run", "--out", "{}/new-claims")
IMPORTED = (command("data", "info", "{}/new"), command("data", "verify", "{}/new", "--replay"))
STORE_VERBS = (
    command("data", "info", "{}/store", "--sheet", "{}/sheet.png"),
    command("data", "verify", "{}/store", "--replay"),
    command("data", "export", "{}/store", "--format", "npz", "--out", "{}/new"),
    command(
        "evaluate", "--predictors", "{}/run", "--data", "{}/store", "--out", "{}/new-e", *EVALUATED[:-4], "--videos=0"
    ),
    command("counterfactual", "--predictors", "{}/run", "--data", "{}/store", "--out", "{}/new-c", "--states", "2"),
    lambda folder: session_maker(PlayConfig(predictors=(str(folder / "run"),), data=folder / "store"))().close(),
)
RUN_VERBS = (
    REPORT,
    *STORE_VERBS[3:],
    command("control", "--predictors", "{}/run", "--agent", "{}/agent", "--episodes=1", "--horizons=1", "--max-steps=3",
            "--out={}/new-p"),
    command("export", "--predictor", "{}/run", "--onnx", "{}/new-o"),
)  # fmt: skip
AGENT_VERBS = (
    command("agent", "evaluate", "--agent", "{}/agent", "--episodes=1", "--max-steps=3", "--out={}/new-a"),
    RUN_VERBS[-2],
)
EXPLORE = command(
    "explore", "--env-id", small.SMALL_TOY, "--predictor", "{}/run", "--out", "{}/explored", "--seeds=1",
    "--max-steps=3", "--map-steps=0", "--map-seeds=0", "--noops=0", "--strategies", "informed-model",
)  # fmt: skip
CONTROL = command("control", "--predictors", "{}/run", "--agent", "{}/agent", "--episodes=1", "--horizons=1",
                  "--max-steps=3", "--out={}/controlled")  # fmt: skip


def train_on(folder: Path) -> None:
    """Resume a training."""
    small.run(EpisodeStore(folder / "store"), small.small_config(), folder / "trained")


def learn_on(folder: Path) -> None:
    """Resume an agent's learning."""
    short_runs.run(folder / "learned")


def import_from(format: str, source: str) -> tuple[Verb, ...]:
    """Import and look at what came in."""
    return (command("data", "import", f"{{}}/{source}", "--format", format, "--out", "{}/new"), *IMPORTED)


KINDS = [
    Kind("store.json", "base", "store/store.json", STORE_VERBS, SEALED),
    Kind("index", "base", "store/index.jsonl", STORE_VERBS[:3], LINES),
    Kind("part", "base", "store/episodes/000000.safetensors", STORE_VERBS[:3], None,
         part_texts, write_part),
    Kind("run config", "base", "run/config.json", RUN_VERBS[:3], SEALED),
    Kind("run starts", "base", "run/starts.jsonl", (REPORT,), LINES),
    Kind("run metrics", "base", "run/metrics.jsonl", (REPORT, CLAIMS), LINES),
    Kind("predictor", "base", "run/predictor/config.json", (*RUN_VERBS, EXPLORE), PREDICTOR),
    Kind("agent", "base", "agent/config.json", AGENT_VERBS, SEALED),
    Kind("evaluation", "base", "run/evaluation.json", (REPORT, CLAIMS), PLAIN),
    Kind("counterfactual", "base", "run/counterfactual.json", (REPORT, CLAIMS), PLAIN),
    Kind("analysis", "base", "run/analysis.json", (REPORT, CLAIMS), PLAIN),
    Kind("control parts", "base", "controlled/control.jsonl", (CONTROL,), LINES),
    Kind("explore parts", "base", "explored/explore.jsonl", (EXPLORE,), LINES),
    Kind("training config", "training", "trained/config.json", (train_on,), SEALED),
    Kind("training metrics", "training", "trained/metrics.jsonl", (train_on,), LINES),
    Kind("checkpoint config", "training", "trained/checkpoints/step-*/config.json", (train_on,), PREDICTOR),
    Kind("checkpoint state", "training", "trained/checkpoints/step-*/state.json", (train_on,), PLAIN),
    Kind("checkpoint manifest", "training", "trained/checkpoints/step-*/manifest.json", (train_on,), SEALED),
    Kind("agent's run config", "learning", "learned/config.json",
         (learn_on, command("agent", "compare", "--runs", "{}/learned", "--out", "{}/new")), SEALED),
    Kind("agent's run metrics", "learning", "learned/metrics.jsonl",
         (command("agent", "compare", "--runs", "{}/learned", "--out", "{}/new"),), LINES),
    Kind("agent's checkpoint state", "learning", "learned/checkpoints/step-*/state.json", (learn_on,), PLAIN),
    Kind("npz", "npz", "source/episode_000000.npz", import_from("npz", "source"), None, read_npz, write_npz),
    Kind("Minari", "minari", "source/acvp/set-v0/data/metadata.json", import_from("minari", "source"), PLAIN),
    Kind("LeRobot", "lerobot", "source/meta/info.json", import_from("lerobot", "source"), PLAIN),
    Kind("datasets state", "datasets", "source/test/state.json", import_from("datasets", "source"), PLAIN),
    Kind("datasets features", "datasets", "source/test/dataset_info.json", import_from("datasets", "source"), PLAIN),
    Kind("datasets splits", "datasets", "source/dataset_dict.json", import_from("datasets", "source"), PLAIN),
    Kind("saved state", "state", "state", (restore_state,), None, read_state, write_state),
]  # fmt: skip


FILES = [
    ("base", "store/store.json", STORE_VERBS[:3]),
    ("base", "store/index.jsonl", STORE_VERBS[:3]),
    ("base", "store/episodes/000000.safetensors", STORE_VERBS[:4]),
    ("base", "run/config.json", RUN_VERBS[:2]),
    ("base", "run/starts.jsonl", (REPORT,)),
    ("base", "run/metrics.jsonl", (REPORT,)),
    ("base", "run/predictor/config.json", RUN_VERBS[:2]),
    ("base", "run/predictor/model.safetensors", RUN_VERBS[1:2]),
    ("base", "run/evaluation.json", (REPORT,)),
    ("base", "run/counterfactual.json", (REPORT,)),
    ("base", "run/analysis.json", (REPORT,)),
    ("base", "run/videos/*.mp4", (REPORT,)),
    ("base", "run/strips/*.png", (REPORT,)),
    ("base", "run/plots/counterfactual-*.png", (REPORT,)),
    ("base", "run/plots/contingency.png", (REPORT,)),
    ("base", "agent/config.json", AGENT_VERBS),
    ("base", "agent/model.safetensors", AGENT_VERBS),
    ("base", "controlled/control.jsonl", (CONTROL,)),
    ("base", "explored/explore.jsonl", (EXPLORE,)),
    ("training", "trained/config.json", (train_on,)),
    ("training", "trained/metrics.jsonl", (train_on,)),
    ("training", "trained/checkpoints/step-*/state.json", (train_on,)),
    ("training", "trained/checkpoints/step-*/manifest.json", (train_on,)),
    ("learning", "learned/config.json", (learn_on,)),
    ("learning", "learned/checkpoints/step-*/state.json", (learn_on,)),
    ("npz", "source/episode_000000.npz", import_from("npz", "source")),
    ("authors", "source/train/0000/act.log", import_from("authors", "source")),
    ("authors", "source/train/0001/00003.png", import_from("authors", "source")),
    ("authors", "source/mean.binaryproto", import_from("authors", "source")),
    ("video", "source/episode_000000.mkv", import_from("video", "source")),
    ("video", "source/episode_000000.csv", import_from("video", "source")),
    ("minari", "source/acvp/set-v0/data/metadata.json", import_from("minari", "source")),
    ("minari", "source/acvp/set-v0/data/main_data.hdf5", import_from("minari", "source")),
    ("lerobot", "source/meta/info.json", import_from("lerobot", "source")),
    ("lerobot", "source/data/chunk-000/file-000.parquet", import_from("lerobot", "source")),
    ("lerobot", "source/meta/episodes/chunk-000/file-000.parquet", import_from("lerobot", "source")),
    ("datasets", "source/test/state.json", import_from("datasets", "source")),
    ("datasets", "source/test/*.arrow", import_from("datasets", "source")),
]
"""Files of every kind, with verbs that read them."""


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Make the preset smoke of agents a moment long, and draw no figures, which is slow and opens no file."""
    patch.setattr(Figure, "savefig", lambda figure, buffer, **options: buffer.write(b"a figure"))
    patch.setattr(report_page, "_themed", lambda draw, alternative: "")
    patch.setattr(agent_session, "EVALUATION_STEPS", 30)
    patch.setitem(agent_presets.PRESETS, "smoke", lambda: replace(short_runs.SHORT, steps=40, evaluations=1))


def make_workshop(home: Path) -> None:
    """Make all folders."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        make_base(home / "base")
        learn_on(home / "learning")
    shutil.copytree(home / "base" / "store", home / "training" / "store")
    train_on(home / "training")
    store = answer_store(home / "answers", [5, 9])
    for format in ("npz", "authors", "video", "lerobot"):
        export_store(format, store, home / format / "source")
    save_to_disk(store, home / "datasets" / "source")
    export_store("minari", store, home / "minari" / "source", dataset_id="acvp/set-v0")
    with make_game(small.SMALL_TOY, sticky=0.5) as game:
        game.reset(1)
        game.step(1)
        (home / "state").mkdir()
        (home / "state" / "state").write_bytes(game.save().to_bytes())


def save_to_disk(store: EpisodeStore, folder: Path) -> None:
    """Save a dataset as the library `datasets` does, with two splits."""
    export_store("datasets", store, folder.parent / "exported")
    (file,) = (folder.parent / "exported").rglob("*.parquet")
    with redirect_stderr(io.StringIO()):  # it shows progress
        table = datasets.Dataset(parquet.read_table(file))
        datasets.DatasetDict({"train": table, "test": table}).save_to_disk(folder)
    shutil.rmtree(folder.parent / "exported")


def make_base(base: Path) -> None:
    """A store, a run with all its results, and an agent."""
    config = CollectConfig(env_id=small.SMALL_TOY, out=base / "store", frames=150, max_steps=30)
    store = collect(replace(config, import_module=small.__name__))
    make_run(base / "run", store, predictor=small_feedforward(store))
    tiny_agent(small.SMALL_TOY).save(base / "agent")
    paths = ["--data", str(store.path)]
    run = str(base / "run")
    assert main(["evaluate", "--predictors", run, *paths, *EVALUATED, "--crop", "1x1+9+9"]) == 0
    assert main(["counterfactual", "--predictors", run, *paths, "--states", "2"]) == 0
    assert main(["analyze", "--predictor", run, *paths, "--states", "2", "--steps", "1", "--examples", "1"]) == 0
    assert CONTROL(base) == 0
    assert EXPLORE(base) == 0
