"""`acvp.collect`, `acvp.train` and `acvp.evaluate`: the commands of these names as Python functions.

Each takes the common options by name, and every other option of its command as a keyword, with _ for -.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acvp.console import PlainConsole, err, stages
from acvp.data.collect import CollectConfig
from acvp.data.collect import collect as record
from acvp.data.merge import join
from acvp.data.policies import AGENT, PLAN, load_policy
from acvp.data.store import EpisodeStore
from acvp.errors import UserError

if TYPE_CHECKING:
    from acvp.models import Predictor

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes of a command that was stopped by SIGINT (ctrl-C) and by SIGTERM."""


def collect(
    env_id: str,
    out: str | Path,
    *,
    frames: int = 20_000,
    policy: str | Sequence[str] = "sticky-random",
    epsilon: float | Sequence[float] = 0.3,
    seed: int = 1,
    **options: Any,
) -> EpisodeStore:
    """Record a game into a dataset, and return it; a dataset that has these frames already is returned at once.

    Several policies, each with its `epsilon`, play a mix.

    >>> dataset = acvp.collect("freeway", "stores/freeway", frames=100_000)
    """
    load = load_policy
    policies = (policy,) if isinstance(policy, str) else tuple(policy)
    if any(name.startswith((AGENT, PLAN)) for name in policies):
        from acvp.agents.policies import load_any_policy as load
    config = CollectConfig(
        env_id=env_id,
        out=Path(out),
        frames=frames,
        policy=policies,
        epsilon=(epsilon,) if isinstance(epsilon, int | float) else tuple(epsilon),
        seed=seed,
        **options,
    )
    return record(config, load=load)


def train(
    data: str | Path | Sequence[str | Path],
    run: str | Path | None = None,
    *,
    model: Any = "feedforward",
    preset: Any = "cpu",
    minutes: float | None = None,
    seed: int = 1,
    quiet: bool = False,
    **options: Any,
) -> Predictor:
    """Train a predictor on a dataset, or on several as one, and return it; an interrupted run is resumed.

    `run` is the run folder, `minutes` the wall-clock time, `quiet` prints nothing. Once the run is saved, it raises
    KeyboardInterrupt after ctrl-C and SystemExit(143) after SIGTERM; it raises UserError if training diverged.

    >>> predictor = acvp.train("stores/freeway", "runs/freeway", model="pixel", minutes=30)
    """
    from acvp.loaded import load
    from acvp.training.config import TrainConfig
    from acvp.training.presets import make_config
    from acvp.training.run import train as fit

    config = TrainConfig(
        data=_paths(data),
        run=None if run is None else Path(run),
        model=model,
        preset=preset,
        minutes=minutes,
        seed=seed,
        **options,
    )
    store = join(config.data)
    result = fit(config, store, make_config(config, store), PlainConsole(quiet=True) if quiet else err)
    if result.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    if result.exit_code == TERMINATED:
        raise SystemExit(TERMINATED)
    if result.exit_code:
        raise UserError(f"{result.run.path}: training stopped with exit code {result.exit_code}")
    return load(result.run.path)


def evaluate(
    runs: str | Path | Sequence[str | Path],
    data: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    horizon: int = 100,
    windows: int = 500,
    seed: int = 0,
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Compare predictions with recorded frames step by step, write the results, and return those of evaluation.json.

    `runs` are run or predictor folders, or names of predictors that come with acvp.

    >>> results = acvp.evaluate("runs/freeway", "stores/freeway", horizon=30)
    """
    from acvp.evaluation.config import EvaluateConfig
    from acvp.evaluation.run import evaluate_runs
    from acvp.models import keep_freed_memory

    config = EvaluateConfig(
        predictors=_paths(runs),
        data=_paths(data),
        out=None if out is None else Path(out),
        horizon=horizon,
        windows=windows,
        seed=seed,
        **options,
    )
    keep_freed_memory()
    if quiet:
        return evaluate_runs(config, lambda title: lambda done, total: None)
    with stages() as stage:
        return evaluate_runs(config, stage)


def _paths(paths: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    return (Path(paths),) if isinstance(paths, str | Path) else tuple(map(Path, paths))
