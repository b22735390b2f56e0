"""Mutants of planning and of learning in rounds: what a plan is worth, and what a round is given and logs."""

from __future__ import annotations

from tests.mutants import Mutant

PLANNING = (
    Mutant(
        "planning counts rewards after the end of the episode",
        "agents/plan.py",
        "self.config.discount**steps * survival * outcome.expected_rewards()",
        "self.config.discount**steps * outcome.expected_rewards()",
        "agents/test_plan.py::test_rewards_after_the_end_of_the_episode_do_not_count",
    ),
    Mutant(
        "planning does not discount what lies beyond the horizon",
        "agents/plan.py",
        "beyond = self.config.discount**node.steps * node.survival",
        "beyond = node.survival",
        "agents/test_plan.py::test_an_agent_s_values_beyond_the_horizon_are_discounted_and_need_survival",
    ),
    Mutant(
        "a plan is played on after a random action",
        "agents/plan.py",
        "self._rest, self._left = None if self._rest is None else self._rest[1:], 0",
        "self._rest = None if self._rest is None else self._rest[1:]",
        "agents/test_plan.py::test_a_plan_is_played_for_some_steps_and_again_after_a_random_action",
    ),
    Mutant(
        "a planner does not know the last actions",
        "agents/plan.py",
        "observe(real[:, first:], past[:, first:])",
        "observe(real[:, first:], 0 * past[:, first:])",
        "agents/test_plan.py::test_the_predictor_is_given_the_actions_between_the_frames",
    ),
    Mutant(
        "a round records an episode that may exceed the budget",
        "control/rounds.py",
        "if left < limit:\n                return store",
        "if left < 1:\n                return store\n            left = max(left, limit)",
        "control/test_loop.py::test_the_budget_is_a_hard_limit_counted_in_the_emulator",
    ),
    Mutant(
        "a planner repeats the newest frame before an episode",
        "agents/plan.py",
        "np.repeat(frames[:1], missing, 0)",
        "np.repeat(frames[-1:], missing, 0)",
        "agents/test_plan.py::test_missing_frames_before_an_episode_are_its_first_one",
    ),
    Mutant(
        "a changed plan is taken if it is worse",
        "agents/plan.py",
        "if of_changed.max() > worth.max() else best",
        "if of_changed.max() < worth.max() else best",
        "agents/test_plan.py::test_a_changed_plan_is_taken_if_it_is_better_and_only_then",
    ),
    Mutant(
        "each round's agent starts from random weights",
        "control/rounds.py",
        "initial = None if before is None else load_agent(before)",
        "initial = None",
        "control/test_loop.py::test_a_later_round_asks_for_the_agent_before_and_for_what_is_left",
    ),
    Mutant(
        "what a round leaves of the budget is lost",
        "control/rounds.py",
        "config.budget * (self.number + 1) // config.rounds - used",
        "config.budget // config.rounds",
        "control/test_loop.py::test_a_later_round_asks_for_the_agent_before_and_for_what_is_left",
    ),
    Mutant(
        "heads are calibrated on episodes that they were trained on",
        "control/rounds.py",
        "for judged in (held_out, store):",
        "for judged in (store, held_out):",
        "control/test_loop.py::test_heads_are_calibrated_on_held_out_episodes_first",
    ),
    Mutant(
        "the error of copying is that of the oldest given frame",
        "control/rounds.py",
        "((given[:, -1] - target) ** 2)",
        "((given[:, 0] - target) ** 2)",
        "control/test_loop.py::test_errors_of_copying_are_those_of_a_predictor_that_copies",
    ),
    Mutant(
        "a round is logged with the score before it",
        "control/loop.py",
        'if line["kind"] == "evaluation"][-1]',
        'if line["kind"] == "evaluation"][0]',
        "control/test_loop.py::test_a_round_is_logged_with_its_last_evaluation_and_its_own_time",
    ),
    Mutant(
        "a round is logged with the time of all rounds",
        "control/loop.py",
        '(line["round"], line["part"]) == (place.number, part)]',
        'line["part"] == part]',
        "control/test_loop.py::test_a_round_is_logged_with_its_last_evaluation_and_its_own_time",
    ),
    Mutant(
        "the rest of a plan ends by holding its first action",
        "agents/plan.py",
        "np.repeat(last[-1:], horizon)",
        "np.repeat(last[:1], horizon)",
        "agents/test_plan.py::test_the_rest_of_a_plan_ends_by_holding_its_last_action",
    ),
    Mutant(
        "results of planners with different agents are taken for each other",
        "agents/plan.py",
        "replace(self.config, value=agent)",
        "replace(self.config, value='')",
        "agents/test_plan.py::test_results_are_kept_by_weights_and_options",
    ),
    Mutant(
        "informed exploration records a round too many",
        "control/rounds.py",
        "self.number < self.config.explore_rounds",
        "self.number <= self.config.explore_rounds",
        "control/test_loop.py::test_informed_exploration_ends_after_its_rounds",
    ),
    Mutant(
        "references of agent learn play the episodes of the first score",
        "control/loop.py",
        "seed=evaluation_seed(seed, 1)",
        "seed=evaluation_seed(seed, 0)",
        "control/test_loop.py::test_references_play_the_episodes_of_the_last_score",
    ),
)
