"""Mutants of envs, data and the modules that all packages share: what is recorded, split, drawn and kept."""

from __future__ import annotations

from tests.mutants import Mutant

RECORDING = (
    Mutant(
        "sticky actions repeat at the opposite rate",
        "envs/game.py",
        "draw < self._sticky",
        "draw > self._sticky",
        "envs/test_game.py::test_sticky_actions_repeat_at_their_rate_and_follow_the_seed",
    ),
    Mutant(
        "an episode is cut off a step late",
        "envs/game.py",
        "self._elapsed >= self.limit",
        "self._elapsed > self.limit",
        "envs/test_game.py::test_max_steps_replaces_the_envs_own_limit",
    ),
    Mutant(
        "of skipped frames only the last reward counts",
        "envs/gym.py",
        "total += self._reward(reward)",
        "total = self._reward(reward)",
        "envs/test_game.py::test_an_action_is_held_for_frame_skip_steps_and_rewards_add_up",
    ),
    Mutant(
        "actions that do not count from 0 are shifted",
        "envs/gym.py",
        "self._env.step(action + self._start)",
        "self._env.step(action)",
        "envs/test_make.py::test_actions_count_from_zero_whatever_the_env_does",
    ),
    Mutant(
        "the toy game's stun is a step short",
        "envs/toy.py",
        "now.stun = STUN",
        "now.stun = STUN - 1",
        "envs/test_toy.py::test_a_hit_stuns_for_six_decisions",
    ),
    Mutant(
        "a window has the rewards of a step before",
        "data/windows.py",
        "episode.rewards[start : stop - 1]",
        "np.roll(episode.rewards, 1)[start : stop - 1]",
        "data/test_windows.py::test_a_window_has_the_actions_rewards_and_end_of_its_own_steps",
    ),
    Mutant(
        "a window ends the game a frame early",
        "data/windows.py",
        "stop == len(episode)",
        "stop >= len(episode) - 1",
        "data/test_windows.py::test_a_window_has_the_actions_rewards_and_end_of_its_own_steps",
    ),
    Mutant(
        "every rank draws the same windows",
        "data/windows.py",
        "numbers[rank * size : (rank + 1) * size]",
        "numbers[:size]",
        "data/test_windows.py::test_ranks_share_one_batch",
    ),
    Mutant(
        "an event in the first predicted step is missed",
        "data/windows.py",
        "event - context + 1",
        "event - context",
        "data/test_windows.py::test_eventful_windows_are_those_with_a_reward_or_an_end_to_predict_each_kind_alike",
    ),
    Mutant(
        "rarity of a window leaves its first predicted step out",
        "data/rarity.py",
        "before[starts + context - 1]",
        "before[starts + context]",
        "data/test_rarity.py::test_a_window_is_as_rare_as_the_steps_it_predicts",
    ),
    Mutant(
        "gray levels are rounded down",
        "data/views.py",
        "np.floor(gray + 0.5)",
        "np.floor(gray)",
        "data/test_views.py::test_luminance_is_rounded_to_the_nearest",
    ),
    Mutant(
        "motions have the opposite sign",
        "data/motions.py",
        "y - a, x - b",
        "y + a, x + b",
        "data/test_motions.py::test_a_motion_is_found",
    ),
    Mutant(
        "the split ignores its seed",
        "data/split.py",
        'f"{seed}:{play}"',
        'f"{play}"',
        "data/test_leaks.py::test_the_seed_chooses_the_test_part",
    ),
    Mutant(
        "a short copy of an episode's beginning leaks into the test part",
        "data/split.py",
        "entry.frames >= length and",
        "entry.frames == length and",
        "data/test_leaks.py::test_planted_leaks_are_caught",
    ),
    Mutant(
        "all purposes share one stream of random numbers",
        "seeding.py",
        "zlib.crc32(purpose.encode())",
        "0",
        "test_seeding.py::test_every_purpose_and_key_has_its_own_stream",
    ),
    Mutant(
        "keys of the same sum share one stream of random numbers",
        "seeding.py",
        "[zlib.crc32(purpose.encode()), *key]",
        "[zlib.crc32(purpose.encode()), sum(key)]",
        "test_seeding.py::test_every_purpose_and_key_has_its_own_stream",
    ),
    Mutant(
        "the worst checkpoint is kept and not the best",
        "checkpoint.py",
        "best = min(counted",
        "best = max(counted",
        "test_checkpoint.py::test_newest_and_best_are_kept",
    ),
)
