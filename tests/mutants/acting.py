"""Mutants of agents, control and play: how games are played and what is counted."""

from __future__ import annotations

from tests.mutants import Mutant

ACTING = (
    Mutant(
        "n-step returns discount what comes later by n though fewer steps were summed",
        "agents/replay.py",
        "(self.discount**length).astype",
        "(self.discount**self.steps * np.ones(len(times))).astype",
        "agents/test_replay.py::test_every_transition_is_the_one_a_plain_replay_keeps",
    ),
    Mutant(
        "n-step returns discount the first reward",
        "agents/replay.py",
        "self.discount**step * self.rewards",
        "self.discount ** (step + 1) * self.rewards",
        "agents/test_replay.py::test_every_transition_is_the_one_a_plain_replay_keeps",
    ),
    Mutant(
        "the oldest transition is never drawn",
        "agents/replay.py",
        "rng.integers(self.added - self.size(), self.added, count)",
        "rng.integers(self.added - self.size() + 1, self.added, count)",
        "agents/test_replay.py::test_exactly_the_newest_transitions_are_drawn_each_alike",
    ),
    Mutant(
        "a lost life always ends the return",
        "agents/replay.py",
        "(TERMINAL, LIFE_LOST) if self.life_ends else (TERMINAL,)",
        "(TERMINAL, LIFE_LOST)",
        "agents/test_replay.py::test_every_transition_is_the_one_a_plain_replay_keeps",
    ),
    Mutant(
        "sticky exploration explores less than ε says",
        "agents/exploration.py",
        "coin = epsilon / (MEAN_REPEATS - epsilon * (MEAN_REPEATS - 1))",
        "coin = epsilon / MEAN_REPEATS",
        "agents/test_exploration.py::test_epsilon_is_the_share_of_exploring_decisions",
    ),
    Mutant(
        "the standard error divides by n and not by n − 1",
        "agents/averages.py",
        "ddof=1",
        "ddof=0",
        "agents/test_play.py::test_mean_and_standard_error",
    ),
    Mutant(
        "scores are sums of clipped rewards",
        "agents/vector.py",
        "play.score += moment.reward",
        "play.score += float(np.sign(moment.reward))",
        "agents/test_vector.py::test_rewards_lives_and_scores_of_a_script",
    ),
    Mutant(
        "an agent learns from rewards that are not clipped",
        "agents/vector.py",
        "np.sign([moment.reward for moment in moments]).astype(np.float32)",
        "np.array([moment.reward for moment in moments], np.float32)",
        "agents/test_vector.py::test_rewards_lives_and_scores_of_a_script",
    ),
    Mutant(
        "an extra life counts as a lost one",
        "agents/vector.py",
        "moment.lives < play.lives",
        "moment.lives != play.lives",
        "agents/test_vector.py::test_rewards_lives_and_scores_of_a_script",
    ),
    Mutant(
        "a pixel that differs by exactly the threshold counts",
        "control/memory.py",
        "- np.minimum(one, y) > near",
        "- np.minimum(one, y) >= near",
        "control/test_memory.py::test_the_kernel_by_hand",
    ),
    Mutant(
        "the error over seeds is their standard deviation",
        "agents/averages.py",
        "ddof=1) / np.sqrt(len(samples))",
        "ddof=1)",
        "control/test_compare.py::test_seeds_become_one_curve_with_their_error",
    ),
    Mutant(
        "real frames come a step late",
        "control/sight.py",
        "self._depth == self.reground_every",
        "self._depth > self.reground_every",
        "control/test_predicted_play.py::test_the_agent_sees_predictions_and_they_are_grounded_every_n_decisions",
    ),
    Mutant(
        "a negative reward counts as the first reward",
        "control/expedition.py",
        "if step.reward > 0 and",
        "if step.reward != 0 and",
        "control/test_exploration.py::test_decisions_to_the_first_reward_by_hand",
    ),
    Mutant(
        "an imagined episode is cut off a step late",
        "control/imagined.py",
        "self._elapsed >= self.max_steps",
        "self._elapsed > self.max_steps",
        "control/test_imagined.py::test_an_episode_is_cut_off",
    ),
    Mutant(
        "the page shows imagined rewards of 0, 1 and 2",
        "play/dream.py",
        "int(state.outcome.reward[0].argmax()) - 1",
        "int(state.outcome.reward[0].argmax())",
        "play/test_dream.py::test_the_likeliest_sign_is_the_imagined_reward",
    ),
    Mutant(
        "differences of pixels wrap around",
        "play/meters.py",
        "np.abs(dream.astype(np.int16) - truth)",
        "np.abs(dream - truth)",
        "play/test_dream.py::test_live_metrics_by_hand",
    ),
    Mutant(
        "rewinding loses one of the newest moments",
        "play/timeline.py",
        "if len(self._kept) > RECENT and self._kept[-RECENT - 1].number % EVERY:\n            self._drop(-RECENT - 1)",
        "if len(self._kept) > RECENT and self._kept[-RECENT].number % EVERY:\n            self._drop(-RECENT)",
        "play/test_timeline.py::test_the_newest_are_all_kept_and_older_ones_thinned",
    ),
    Mutant(
        "pictures are sent as differences that the page does not undo",
        "play/wire.py",
        "difference = values ^ self._values",
        "difference = values - self._values",
        "play/test_wire.py::test_a_changed_pixel_arrives_as_it_was_sent",
    ),
)
