"""Planning: a predictor imagines what plans of actions lead to, and the best plan is played for a few agent steps.

    plan:freeway                              the packaged predictor of Freeway, sampled plans
    plan:runs/mine,horizon=30,samples=64      a predictor of yours, with other values of PlanConfig
    plan:freeway,search=tree                  every sequence of held actions instead of sampled ones
    plan:freeway,horizon=10,value=freeway     beyond the horizon, what the agent `freeway` expects

A plan is worth the rewards expected on its way, each times the probability that the episode still continues, plus the
value of the state at the horizon.

Shapes: N plans, K agent steps of a plan, A actions, C channels, H height, W width.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.agents.agent import STACK, Agent, Pixels, agent_view, load_agent, predictor_view
from acvp.data.policies import PLAN, sticky_random_actions
from acvp.errors import UserError, require, require_above_zero
from acvp.loaded import load
from acvp.models import Predictor, State, fingerprint
from acvp.models.rollout import select_rows

Plan = NDArray[np.int64]  # (K,)
Plans = NDArray[np.int64]  # (N, K)
Search = Literal["samples", "tree"]
MOST_PLANS = 100_000
"""Plans that are imagined at once, at most."""


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """How to plan; each field is an option behind the predictor: plan:PREDICTOR,horizon=30,keep=4."""

    search: Search = "samples"
    """samples: hold each action, take the best of these plans and of the last one, and change parts of it at random;
    tree: every sequence of held actions."""
    horizon: int = 48
    """Agent steps of a plan."""
    samples: int = 16
    """Plans compared (samples); those that hold one action, and the last plan, are among them."""
    splits: int = 2
    """Times that the tree branches into all actions; the last action is held to the horizon (tree)."""
    hold: int = 8
    """Agent steps for which a branch holds its action before it branches again (tree)."""
    keep: int = 8
    """Agent steps of the best plan that are played before the next planning."""
    discount: float = 0.99
    """What a reward one agent step later is worth."""
    value: str = ""
    """Agent whose action values count at the horizon; empty: nothing counts beyond it."""

    def __post_init__(self) -> None:
        if self.search not in get_args(Search):
            raise UserError(f"search={self.search}: choose {' or '.join(get_args(Search))}")
        require(1, horizon=self.horizon, splits=self.splits, hold=self.hold)
        require(1, MOST_PLANS, samples=self.samples)
        require(1, self.horizon, keep=self.keep)
        require_above_zero(1, discount=self.discount)
        if self.search == "tree" and self.splits * self.hold > self.horizon:
            raise UserError(
                f"splits={self.splits} of hold={self.hold} steps need a horizon of {self.splits * self.hold}"
            )


def parse_plan(name: str) -> tuple[str, PlanConfig]:
    """Return the predictor and the config that a policy's name stands for: plan:PREDICTOR,option=value,…"""
    predictor, *words = name.removeprefix(PLAN).split(",")
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(PlanConfig)}
    values: dict[str, Any] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if option not in kinds or not equals:
            raise UserError(f"{name}: {word!r} is no option of planning; write one of {', '.join(kinds)} with =value")
        try:
            values[option] = kinds[option](value)
        except ValueError as error:
            raise UserError(f"{name}: {option} is a number, not {value!r}") from error
    if not predictor:
        raise UserError(f"{name}: name a predictor, such as {PLAN}freeway")
    return predictor, PlanConfig(**values)


class Imagined(NamedTuple):
    """Where plans have led so far, a row for each."""

    state: State
    returns: torch.Tensor
    """Discounted expected rewards, (N,)."""
    survival: torch.Tensor
    """Probability that the episode still continues, (N,)."""
    steps: int
    """Agent steps imagined."""
    recent: torch.Tensor
    """The last four frames, normalized, oldest first, (N, 4, C, H, W)."""

    def rows(self, rows: NDArray[np.int64]) -> Imagined:
        """Return some of the rows, in their order; a row may come several times."""
        chosen = torch.from_numpy(rows).to(self.returns.device)
        return Imagined(
            select_rows(self.state, rows), self.returns[chosen], self.survival[chosen], self.steps, self.recent[chosen]
        )


class Planner:
    """Finds the plan of actions whose imagined future is worth most."""

    def __init__(self, predictor: Predictor, config: PlanConfig | None = None, *, value: Agent | None = None) -> None:
        """Take a predictor with reward and termination heads, and the agent that values states at the horizon."""
        self.predictor, self.config, self.value = predictor, config or PlanConfig(), value
        if value is not None and value.actions != predictor.actions:
            raise UserError(
                f"value={self.config.value}: an agent of {value.actions} actions, the predictor knows "
                f"{predictor.actions}; name an agent of the same game"
            )

    @property
    def identity(self) -> str:
        """What decides its plans besides the frames: weights and config."""
        agent = "" if self.value is None else self.value.digest
        return f"{fingerprint(self.predictor)} {replace(self.config, value=agent)}"

    def policy(self, action_meanings: tuple[str, ...], rng: np.random.Generator) -> PlanningPlayer:
        """Return a player of one episode."""
        about = self.predictor.about
        if about is not None and tuple(about.action_meanings) != tuple(action_meanings):
            raise UserError(
                f"the predictor of {about.env_id} knows the actions {' '.join(about.action_meanings)}, this game has "
                f"{' '.join(action_meanings)}: name a predictor of this game"
            )
        return PlanningPlayer(self, rng)

    @torch.inference_mode()
    def plan(
        self, frames: Pixels, rng: np.random.Generator, last: Plan | None = None, actions: Sequence[int] = ()
    ) -> Plan:
        """Return the best plan (K,) after real frames (T, H, W, C) in the predictor's view, oldest first.

        If there are fewer than the predictor needs, the first is repeated. `last` is the rest of the plan before;
        `actions` are those between the frames, or the last of them that are known.
        """
        missing = max(0, max(self.predictor.context, STACK) - len(frames))
        given = np.concatenate((np.repeat(frames[:1], missing, 0), frames))
        device = self.predictor.normalizer.mean.device
        real = self.predictor.normalizer.to_float(torch.from_numpy(given[None]).to(device))
        past = torch.zeros(1, len(given) - 1, self.predictor.actions, device=device)  # zeros: not known
        for back, action in enumerate(reversed(actions), 1):
            past[0, -back, action] = 1.0
        first = len(given) - self.predictor.context
        state = self.predictor.observe(real[:, first:], past[:, first:])
        certain = torch.ones(1, device=device)
        start = Imagined(state, 0 * certain, certain, 0, real[:, -STACK:])
        return self._best_of_tree(start) if self.config.search == "tree" else self._best_of_samples(start, rng, last)

    def _best_of_samples(self, start: Imagined, rng: np.random.Generator, last: Plan | None) -> Plan:
        """Return the best of the plans that hold one action, of the last plan, and of changed copies of the best."""
        horizon, actions = self.config.horizon, self.predictor.actions
        plans = np.repeat(np.arange(actions)[:, None], horizon, 1)
        if last is not None and len(last):
            rest = np.concatenate((last, np.repeat(last[-1:], horizon)))[:horizon]
            plans = np.concatenate((rest[None], plans))
        worth = self._worth(start, plans)
        best = np.asarray(plans[worth.argmax()])
        count = self.config.samples - len(plans)
        if count <= 0:
            return best
        changed = change_parts(best, actions, count, rng)
        of_changed = self._worth(start, changed)
        return np.asarray(changed[of_changed.argmax()]) if of_changed.max() > worth.max() else best

    def _best_of_tree(self, start: Imagined) -> Plan:
        """Return the best of all sequences of held actions; they share the imagined steps that they have in common."""
        config, actions = self.config, self.predictor.actions
        if actions**config.splits > MOST_PLANS:
            raise UserError(f"splits={config.splits} with {actions} actions: at most {MOST_PLANS:,} plans are compared")
        plans = np.zeros((1, 0), np.int64)
        node = start
        for split in range(config.splits):
            parents = np.repeat(np.arange(len(plans)), actions)
            choices = np.tile(np.arange(actions), len(plans))
            last = split == config.splits - 1
            held = np.repeat(choices[:, None], config.horizon - plans.shape[1] if last else config.hold, 1)
            node = self._follow(node.rows(parents), held)
            plans = np.concatenate((plans[parents], held), 1)
        return np.asarray(plans[int(self._total(node).argmax())])

    def _worth(self, start: Imagined, plans: Plans) -> NDArray[np.float64]:
        """Return what plans (N, K) from one state are worth, (N,)."""
        return self._total(self._follow(start.rows(np.zeros(len(plans), np.int64)), plans))

    def _follow(self, node: Imagined, plans: Plans) -> Imagined:
        """Imagine plans (N, K), a row each, from where the rows are."""
        state, returns, survival, steps, recent = node
        for actions in torch.from_numpy(plans.T.copy()).to(returns.device):
            frame, state = self.predictor.predict(state, actions)
            if state.outcome is None:
                raise UserError(
                    "this predictor predicts frames only, and planning needs rewards: train with acvp train "
                    "--predict-rewards, or with --model pixel"
                )
            outcome = self.predictor.calibration.apply(state.outcome)
            returns = returns + self.config.discount**steps * survival * outcome.expected_rewards()
            survival = survival * outcome.survival()
            recent = torch.cat((recent[:, 1:], frame[:, None]), 1)
            steps += 1
        return Imagined(state, returns, survival, steps, recent)

    def _total(self, node: Imagined) -> NDArray[np.float64]:
        """Return the returns with the value at the horizon, (N,)."""
        total = node.returns.double().numpy(force=True)
        if self.value is None:
            return total
        seen = agent_view(self.predictor.normalizer.to_uint8(node.recent).numpy(force=True))  # (N, 4, 84, 84)
        beyond = self.config.discount**node.steps * node.survival.double().numpy(force=True)
        return np.asarray(total + beyond * self.value.values(seen).max(1))


def change_parts(plan: Plan, actions: int, count: int, rng: np.random.Generator) -> Plans:
    """Return copies (count, K) of a plan (K,), in each of which a random action is held for a random part."""
    changed = np.repeat(plan[None], count, 0)
    chosen, lengths = sticky_random_actions(rng, actions, count)
    for row, first in enumerate(rng.integers(len(plan), size=count).tolist()):
        changed[row, first : first + int(lengths[row])] = chosen[row]
    return changed


class PlanningPlayer:
    """Plays one episode of a planner: plans, plays a part of the plan, and plans again."""

    def __init__(self, planner: Planner, rng: np.random.Generator) -> None:
        self._planner, self._rng = planner, rng
        self._frames: deque[Pixels] = deque(maxlen=max(planner.predictor.context, STACK))
        self._actions: deque[int] = deque(maxlen=self._frames.maxlen)
        """Actions after the frames; of the newest frame, it is still missing."""
        self._rest: Plan | None = None
        """The part of the plan that is not played yet."""
        self._left = 0
        """Agent steps before the next planning."""

    def __call__(self, frame: Pixels) -> int:
        """Return the next action after a frame (H, W, 3)."""
        self._see(frame)
        if self._left == 0:
            between = list(self._actions)[max(0, len(self._actions) + 1 - len(self._frames)) :]
            self._rest = self._planner.plan(np.stack(self._frames), self._rng, self._rest, between)
            self._left = self._planner.config.keep
        assert self._rest is not None
        action, self._rest, self._left = int(self._rest[0]), self._rest[1:], self._left - 1
        self._actions.append(action)
        return action

    def observe(self, frame: Pixels, action: int) -> None:
        """See a frame after which another action than the plan's is taken: plan again at the next one."""
        self._see(frame)
        self._actions.append(action)
        self._rest, self._left = None if self._rest is None else self._rest[1:], 0

    def _see(self, frame: Pixels) -> None:
        self._frames.append(predictor_view(self._planner.predictor, frame))


def load_planner(name: str) -> Planner:
    """Return the planner that a policy's name stands for, with its predictor and agent loaded."""
    predictor, config = parse_plan(name)
    return Planner(load(predictor), config, value=load_agent(config.value) if config.value else None)
