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
from acvp.reproduce.plan import Plan, Step
from acvp.reproduce.run import Runner, opened
from tests.agents import short_runs
from tests.agents.small import tiny_agent
from tests.analysis.conftest import small_feedforward
from tests.control import short_loops
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
    read_parquet,
    read_state,
    restore_state,
    write_npz,
    write_parquet,
    write_part,
    write_state,
)
from tests.training import small

EVALUATED = ("--horizon", "3", "--windows", "3", "--shuffled-windows", "0", "--videos", "1", "--device", "cpu")
REPORT = command("report", "--runs", "{}/run", "--results", "{}/run", "--out", "{}/new/report.html")
CLAIMS = command("claims", "--results", "{}/run", "--out", "{}/new-claims")


def results_in(folder: str) -> tuple[Verb, ...]:
    """Show what a folder of results holds, and judge the paper's claims by it."""
    return (
        command("report", "--runs", "{}/run", "--results", f"{{}}/{folder}", "--out", "{}/new/report.html"),
        command("claims", "--results", f"{{}}/{folder}", "--out", "{}/new-claims"),
    )


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


def imagine_on(folder: Path) -> None:
    """Resume the second round of an agent that learns in imagination, all parts of which are finished."""
    with pytest.MonkeyPatch.context() as patch:
        short_loops.shorten(patch)
        short_loops.learn(folder / "imagined")


def reproduce_on(folder: Path) -> None:
    """Resume a reproduction of one step that makes nothing."""
    plan = Plan((Step(name="a", command=("make", "a"), result="a/result", part="data"),), "core")
    with opened(plan, folder / "reproduced"):
        Runner(plan, folder / "reproduced", 1, print, ("true",)).run()


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
    Kind("agent's references", "learning", "learned/references.json",
         (command("agent", "compare", "--runs", "{}/learned", "--out", "{}/new"),), PLAIN),
    Kind("learning", "learning", "compared/learning.json",
         (command("claims", "--results", "{}/compared", "--out", "{}/new-claims"),), PLAIN),
    Kind("control", "base", "controlled/control.json", results_in("controlled"), PLAIN),
    Kind("explore", "base", "explored/explore.json", results_in("explored"), PLAIN),
    Kind("agent evaluation", "base", "evaluated/agent-evaluation.json", results_in("evaluated"), PLAIN),
    Kind("claims", "base", "judged/claims.json", (
        command("report", "--runs", "{}/run", "--claims", "{}/judged/claims.json", "--out", "{}/new/report.html"),
    ), PLAIN),
    Kind("rounds config", "imagined", "imagined/config.json", (imagine_on,), SEALED),
    Kind("rounds metrics", "imagined", "imagined/metrics.jsonl", (imagine_on,), LINES),
    Kind("rounds times", "imagined", "imagined/times.jsonl", (imagine_on,), LINES),
    Kind("round's predictor", "imagined", "imagined/rounds/01/predictor-run/config.json", (imagine_on,), SEALED),
    Kind("round's agent", "imagined", "imagined/rounds/01/agent-run/config.json", (imagine_on,), SEALED),
    Kind("reproduction's plan", "reproduced", "reproduced/plan.json", (reproduce_on,), SEALED),
    Kind("npz", "npz", "source/episode_000000.npz", import_from("npz", "source"), None, read_npz, write_npz),
    Kind("Minari", "minari", "source/acvp/set-v0/data/metadata.json", import_from("minari", "source"), PLAIN),
    Kind("LeRobot", "lerobot", "source/meta/info.json", import_from("lerobot", "source"), PLAIN),
    Kind("Parquet episodes", "lerobot", "source/meta/episodes/chunk-000/file-000.parquet",
         import_from("lerobot", "source"), None, read_parquet, write_parquet),
    Kind("Parquet frames", "lerobot", "source/data/chunk-000/file-000.parquet",
         import_from("lerobot", "source"), None, read_parquet, write_parquet),
    Kind("Parquet of datasets", "parquet", "source/data/train-00000-of-00001.parquet",
         import_from("datasets", "source"), None, read_parquet, write_parquet),
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
    ("imagined", "imagined/config.json", (imagine_on,)),
    ("imagined", "imagined/times.jsonl", (imagine_on,)),
    ("imagined", "imagined/rounds/01/errors.json", (imagine_on,)),
    ("imagined", "imagined/rounds/01/calibration.json", (imagine_on,)),
    ("imagined", "imagined/rounds/00/agent-run/agent/model.safetensors", (imagine_on,)),
    ("reproduced", "reproduced/plan.json", (reproduce_on,)),
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
        folder = str(home / "learning")
        assert main(["agent", "compare", "--runs", f"{folder}/learned", "--out", f"{folder}/compared"]) == 0
    make_rounds(home / "imagined")
    (home / "reproduced" / "reproduced" / "a").mkdir(parents=True)
    (home / "reproduced" / "reproduced" / "a" / "result").touch()
    reproduce_on(home / "reproduced")
    shutil.copytree(home / "base" / "store", home / "training" / "store")
    train_on(home / "training")
    store = answer_store(home / "answers", [5, 9])
    for format in ("npz", "authors", "video", "lerobot"):
        export_store(format, store, home / format / "source")
    save_to_disk(store, home / "datasets" / "source")
    export_store("datasets", store, home / "parquet" / "source")
    export_store("minari", store, home / "minari" / "source", dataset_id="acvp/set-v0")
    with make_game(small.SMALL_TOY, sticky=0.5) as game:
        game.reset(1)
        game.step(1)
        (home / "state").mkdir()
        (home / "state" / "state").write_bytes(game.save().to_bytes())


def make_rounds(home: Path) -> None:
    """A run of two rounds, the second of which has finished parts and is not logged."""
    imagine_on(home)
    metrics = home / "imagined" / "metrics.jsonl"
    first, _ = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(first)


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
    evaluated = ["--episodes", "1", "--max-steps", "3", "--out", str(base / "evaluated")]
    assert main(["agent", "evaluate", "--agent", str(base / "agent"), *evaluated]) == 0
    assert main(["claims", "--results", str(base), "--out", str(base / "judged")]) == 0
