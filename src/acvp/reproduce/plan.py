"""The plan of a reproduction: steps in an order that respects what they need, a pure function of the options.

A step is an ordinary `acvp` command, run in the output folder. All its paths are relative to that folder, so the folder
can be moved and its results name no path of one machine. The name of a step is the folder that it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from acvp.agents.agent import packaged_agents
from acvp.errors import UserError
from acvp.reproduce.config import ReproduceConfig, game_name
from acvp.reproduce.scales import BYTES_A_FRAME, FRAMES_A_MINUTE, NETWORKS, PLAYED_STEPS, SCALES, Scale

EPSILON = "0.3"
"""Share of random actions in the datasets (§4)."""
STRIPS = ((62, 68), (174, 180), (250, 256))
"""First and last steps of the paper's strips, beside the first and the last seven (figure 2, appendix E)."""
CLAIMS = "claims"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of the plan."""

    name: str
    """Folder that it writes, relative to the output folder."""
    command: tuple[str, ...]
    """Words after `acvp`."""
    result: str
    """File that exists only once the command has finished, relative to the output folder."""
    part: str
    """Part of the paper, as --only names it."""
    inputs: tuple[str, ...] = ()
    """Steps whose results it reads."""
    after: tuple[str, ...] = ()
    """Steps that must have ended before, whether they succeeded or not."""
    frames: int = 0
    """Of a dataset: it is finished once it has so many."""
    repeat: bool = False
    """Whether it runs each time, because it shows what there is."""
    minutes: float = 0.1
    """Estimated cost in minutes of the scale's unit."""
    megabytes: float = 1.0
    """Estimated disk space."""


@dataclass(frozen=True)
class Plan:
    """Steps in order, each after those that it needs."""

    steps: tuple[Step, ...]
    unit: str
    """Whose minutes are estimated: core or GPU."""

    @property
    def minutes(self) -> float:
        """Estimated cost of all steps."""
        return sum(step.minutes for step in self.steps)

    @property
    def megabytes(self) -> float:
        """Estimated disk space of all steps."""
        return sum(step.megabytes for step in self.steps)

    def levels(self) -> Iterator[list[Step]]:
        """Yield steps in groups: those of a group can run at once, after all groups before it."""
        level: dict[str, int] = {}
        for step in self.steps:
            level[step.name] = 1 + max((level[name] for name in (*step.inputs, *step.after)), default=-1)
        for number in range(1 + max(level.values(), default=-1)):
            yield [step for step in self.steps if level[step.name] == number]


def make_plan(config: ReproduceConfig) -> Plan:
    """Return the plan of some options."""
    scale = SCALES[config.scale]
    games = [GamePlan(game, game_name(game), scale, config.seed) for game in config.chosen_games]
    work = selected([step for game in games for step in game.steps()], config.parts)
    if not work:
        raise UserError(
            f"--only {' '.join(config.parts)}: at scale {config.scale} these games have no such step: "
            f"{', '.join(config.chosen_games)}; choose other --games or another --scale"
        )
    closing = [claims_step(work), *(report for game in games for report in game.report(work))]
    return Plan((*work, *closing), scale.unit)


def selected(steps: Sequence[Step], parts: Sequence[str]) -> list[Step]:
    """Return the steps of some parts of the paper and all that they need; no parts: all steps."""
    by_name = {step.name: step for step in steps}
    chosen = {step.name for step in steps if not parts or step.part in parts}
    for step in reversed(steps):  # a step comes after those it needs
        if step.name in chosen:
            chosen |= set(step.inputs)
    return [by_name[step.name] for step in steps if step.name in chosen]


def claims_step(work: Sequence[Step]) -> Step:
    """Return the step that judges the claims by all results there are."""
    return Step(
        name=CLAIMS,
        command=("claims", "--results", ".", "--out", "."),
        result="claims.json",
        part="claims",
        after=tuple(step.name for step in work),
        repeat=True,
    )


@dataclass(frozen=True)
class GamePlan:
    """The steps of one game."""

    env_id: str
    game: str
    """Name of the game and of its folder."""
    scale: Scale
    seed: int

    def steps(self) -> list[Step]:
        """Return all steps in order."""
        return [
            *self.agent(), *self.datasets(), *self.predictors(), *self.evaluations(), *self.curriculum(),
            *self.control(), *self.exploration(), *self.learning(), *self.analysis(),
        ]  # fmt: skip

    def path(self, name: str) -> str:
        """Return a path in the game's folder."""
        return f"{self.game}/{name}"

    @property
    def trained_agent(self) -> tuple[str, ...]:
        """The step that trains the agent; none: it comes with acvp."""
        trained = self.scale.train_agents or self.game not in packaged_agents()
        return (self.path("agent"),) if trained else ()

    @property
    def agent_name(self) -> str:
        """The agent, as options name it."""
        return self.trained_agent[0] if self.trained_agent else self.game

    @property
    def networks(self) -> tuple[str, ...]:
        """The steps of the paper's networks."""
        return tuple(self.path(name) for name in NETWORKS)

    @property
    def _episode_limit(self) -> tuple[str, ...]:
        limit = self.scale.episode_steps
        return () if limit is None else ("--max-steps", str(limit))

    def agent(self) -> Iterator[Step]:
        """Yield the agent, where it is trained, and its score."""
        for name in self.trained_agent:
            yield Step(
                name=name,
                command=(
                    "agent", "train", "--env-id", self.env_id, "--preset", self.scale.agent_preset,
                    *self._episode_limit, "--seed", str(self.seed), "--device", self.scale.device, "--run", name,
                ),
                result=f"{name}/agent/learning-curve.png",
                part="dqn",
                minutes=self.scale.agent_minutes,
                megabytes=3_000 if self.scale.train_agents else 100,
            )  # fmt: skip
        name, episodes = self.path("agent-score"), self.scale.score_episodes
        yield Step(
            name=name,
            command=(
                "agent", "evaluate", "--agent", self.agent_name, "--episodes", str(episodes),
                "--max-steps", str(self.scale.control_steps), "--out", name,
            ),
            result=f"{name}/agent-evaluation.json",
            part="dqn",
            inputs=self.trained_agent,
            minutes=0.1 + episodes * 0.1,
        )  # fmt: skip

    def datasets(self) -> Iterator[Step]:
        """Yield the datasets of the agent at ε = 0.3: for training, and a separate one for tests."""
        for number, (part, frames) in enumerate((("train", self.scale.frames), ("test", self.scale.test_frames))):
            name = self.path(part)
            yield Step(
                name=name,
                command=(
                    "collect", "--env-id", self.env_id, "--policy", f"agent:{self.agent_name}", "--epsilon", EPSILON,
                    "--frames", str(frames), "--seed", str(self.seed + 1000 * number),
                    *self._episode_limit, "--out", name,
                ),
                result=f"{name}/store.json",
                part="data",
                inputs=self.trained_agent,
                frames=frames,
                minutes=0.1 + frames / FRAMES_A_MINUTE,
                megabytes=frames * BYTES_A_FRAME / 1e6,
            )  # fmt: skip

    def predictors(self) -> Iterator[Step]:
        """Yield the training of the paper's networks and of the pixel-exact predictor."""
        parts = {"pixel": "pixel", "gray": "figure6"}
        for name, training in self.scale.training.items():
            step = self._train(name, "feedforward" if name == "gray" else name, training.options)
            yield replace(step, part=parts.get(name, "figure3"), minutes=training.minutes, megabytes=training.megabytes)

    def _train(self, name: str, model: str, options: tuple[str, ...]) -> Step:
        path = self.path(name)
        return Step(
            name=path,
            command=(
                "train", "--data", self.path("train"), "--model", model, *options, "--seed", str(self.seed),
                "--device", self.scale.device, "--run", path,
            ),
            result=f"{path}/predictor/config.json",
            part="figure3",
            inputs=(self.path("train"),),
        )  # fmt: skip

    def evaluations(self) -> Iterator[Step]:
        """Yield figure 3, the long predictions and counterfactual futures; pixel-exact ones apart, on RGB frames."""
        scale, strip = self.scale, self._strip()
        short = (
            "--horizon", str(scale.horizon), "--windows", str(scale.windows), "--shuffled-windows", "0"
        )  # fmt: skip
        long = (
            "--horizon", str(scale.long_horizon), "--windows", str(scale.long_windows), "--shuffled-windows", "0",
            "--videos", str(scale.videos), "--strip", strip,
        )  # fmt: skip
        states = ("--states", str(scale.states))
        pixel = (self.path("pixel"),)
        predicted = scale.horizon * scale.windows
        predicted_long = scale.long_horizon * (scale.long_windows + scale.videos)
        futures = scale.states * 18
        yield self._judge("evaluate", "evaluation", "figure3", self.networks, short, predicted)
        yield self._judge("counterfactual", "counterfactual", "figure3", self.networks, states, futures)
        yield self._judge("evaluate", "long", "figure2", self.networks, long, predicted_long)
        yield self._judge("evaluate", "evaluation-pixel", "pixel", pixel, short, predicted)
        yield self._judge("counterfactual", "counterfactual-pixel", "pixel", pixel, states, futures)

    def _strip(self) -> str:
        """Return the steps of the paper's strips that the long predictions have, and their last seven."""
        last = self.scale.long_horizon
        middle = [f"{first}-{end}" for first, end in STRIPS if end < last - 6]
        return ",".join(["1-7", *middle, f"{last - 6}-{last}"])

    def _judge(
        self, verb: str, name: str, part: str, predictors: tuple[str, ...], options: tuple[str, ...], predicted: int
    ) -> Step:
        path, file = self.path(name), "evaluation.json" if verb == "evaluate" else "counterfactual.json"
        return Step(
            name=path,
            command=(
                verb, "--predictors", *predictors, "--data", self.path("test"), "--trained-on", self.path("train"),
                *options, "--device", self.scale.device, "--out", path,
            ),
            result=f"{path}/{file}",
            part=part,
            inputs=(*predictors, self.path("test"), self.path("train")),
            minutes=0.2 + predicted * self._milliseconds(predictors) / 60e3,
            megabytes=20,
        )  # fmt: skip

    def _milliseconds(self, predictors: Iterable[str]) -> float:
        """Return what a predicted frame of each of some predictors takes together."""
        by_name = self.scale.frame_milliseconds
        return sum(by_name.get(path.rpartition("/")[2], by_name["feedforward"]) for path in predictors)

    def curriculum(self) -> Iterator[Step]:
        """Yield feedforward networks that are trained on several steps from the start, compared with the curriculum."""
        if self.scale.direct_games is not None and self.game not in self.scale.direct_games:
            return
        usual = self.scale.training["feedforward"]
        for name, options in self.scale.direct.items():
            step = self._train(name, "feedforward", (*usual.options, *options))
            yield replace(step, part="curriculum", minutes=usual.minutes, megabytes=usual.megabytes)
        runs = (self.path("feedforward"), *(self.path(name) for name in self.scale.direct))
        windows = max(1, self.scale.windows // 5)
        options = (
            "--horizon", str(self.scale.horizon), "--windows", str(windows), "--shuffled-windows", "0", "--videos", "0"
        )  # fmt: skip
        predicted = self.scale.horizon * windows
        yield self._judge("evaluate", "evaluation-curriculum", "curriculum", runs, options, predicted)

    def control(self) -> Iterator[Step]:
        """Yield play from predicted frames, by the paper's networks and by the pixel-exact predictor."""
        scale = self.scale
        for name, part, predictors in (
            ("control", "figure5", self.networks),
            ("control-pixel", "pixel", (self.path("pixel"),)),
        ):
            path = self.path(name)
            played = scale.control_episodes * min(scale.control_steps, PLAYED_STEPS) * len(scale.control_horizons)
            yield Step(
                name=path,
                command=(
                    "control", "--predictors", *predictors, "--agent", self.agent_name,
                    "--horizons", *map(str, scale.control_horizons), "--episodes", str(scale.control_episodes),
                    "--max-steps", str(scale.control_steps), "--device", scale.device, "--out", path,
                ),
                result=f"{path}/control.json",
                part=part,
                inputs=(*predictors, *self.trained_agent),
                minutes=0.2 + played * (self._milliseconds(predictors) + 2) / 60e3,
                megabytes=2,
            )  # fmt: skip

    def exploration(self) -> Iterator[Step]:
        """Yield exploration without learning, informed by the gray network and by the emulator."""
        scale, path, predictor = self.scale, self.path("explore"), self.path(self.scale.gray)
        yield Step(
            name=path,
            command=(
                "explore", "--env-id", self.env_id, "--predictor", predictor, "--seeds", str(scale.explore_seeds),
                "--max-steps", str(scale.explore_steps), "--map-steps", str(scale.map_steps),
                "--map-seeds", str(min(5, scale.explore_seeds)), "--device", scale.device, "--out", path,
            ),
            result=f"{path}/explore.json",
            part="figure6",
            inputs=(predictor,),
            minutes=0.2 + scale.explore_seeds * min(scale.explore_steps, 20_000) / 15_000,
            megabytes=2,
        )  # fmt: skip

    def learning(self) -> Iterator[Step]:
        """Yield agents that learn with random, model-informed and emulator-informed exploration, and their curves."""
        scale = self.scale
        if scale.learning_games is not None and self.game not in scale.learning_games:
            return
        runs = []
        for strategy in ("random", "informed-model", "informed-emulator"):
            for seed in range(self.seed, self.seed + scale.learning_seeds):
                runs.append(self.path(f"learning/{strategy}-{seed}"))
                yield self._learn(runs[-1], strategy, seed)
        path = self.path("learning-curves")
        yield Step(
            name=path,
            command=("agent", "compare", "--runs", *runs, "--out", path),
            result=f"{path}/learning.json",
            part="table1",
            inputs=tuple(runs),
            minutes=0.2 + scale.learning_steps / 100_000,
        )

    def _learn(self, name: str, strategy: str, seed: int) -> Step:
        scale, predictor = self.scale, (self.path(self.scale.gray),) if strategy == "informed-model" else ()
        return Step(
            name=name,
            command=(
                "agent", "train", "--env-id", self.env_id, "--preset", scale.agent_preset,
                "--steps", str(scale.learning_steps), "--exploration", strategy,
                *(word for path in predictor for word in ("--predictor", path)),
                *self._episode_limit, "--seed", str(seed), "--device", scale.device, "--run", name,
            ),
            result=f"{name}/agent/learning-curve.png",
            part="table1",
            inputs=predictor,
            minutes=0.2 + scale.learning_steps / (4_000 if strategy == "random" else 2_500),
            megabytes=100 if scale.unit == "core" else 3_000,
        )  # fmt: skip

    def analysis(self) -> Iterator[Step]:
        """Yield what the paper's networks have learned about actions."""
        for network in ("feedforward", "recurrent"):
            run, path = self.path(network), self.path(f"analysis-{network}")
            yield Step(
                name=path,
                command=(
                    "analyze", "--predictor", run, "--data", self.path("test"), "--trained-on", self.path("train"),
                    "--states", str(self.scale.states), "--device", self.scale.device, "--out", path,
                ),
                result=f"{path}/analysis.json",
                part="figure7",
                inputs=(run, self.path("test"), self.path("train")),
                minutes=0.2 + self.scale.states * 18 * self._milliseconds([run]) / 60e3,
                megabytes=5,
            )  # fmt: skip

    def report(self, work: Sequence[Step]) -> Iterator[Step]:
        """Yield the report of the paper's networks, where they are evaluated."""
        path, needed = self.path("evaluation"), self.networks
        if path not in {step.name for step in work}:
            return
        yield Step(
            name=self.path("report"),
            command=(
                "report", "--runs", *needed, "--results", path, "--claims", "claims.json",
                "--out", self.path("report.html"),
            ),
            result=self.path("report.html"),
            part="figure3",
            inputs=(path, *needed),
            after=(CLAIMS,),
            repeat=True,
            megabytes=10,
        )  # fmt: skip
