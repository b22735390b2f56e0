"""The state of a trainer: what counts as the best score, and when a phase is out of patience."""

from __future__ import annotations

from acvp.training.state import TrainerState


def test_patience_counts_within_a_phase_and_the_best_score_over_the_run() -> None:
    """The second phase starts worse than the first ended: it improves within the phase, but not over the run."""
    state = TrainerState()
    assert [state.add_score(score) for score in (5.0, 3.0, 4.0, 3.0)] == [True, True, False, False]
    assert (state.stale, state.best) == (2, 3.0)
    state.next_phase()
    assert (state.stale, state.phase, state.phase_step) == (0, 1, 0)
    assert [(state.add_score(score), state.stale) for score in (9.0, 8.0, 8.5, 7.0, 2.0)] == [
        (False, 0), (False, 0), (False, 1), (False, 0), (True, 0),
    ]  # fmt: skip
    assert (state.best, state.phase_best) == (2.0, 2.0)
