"""How far a run has come: what counts as the best score, and when a phase is out of patience."""

from __future__ import annotations

from acvp.training.state import Position


def test_patience_counts_within_a_phase_and_the_best_score_over_the_run() -> None:
    """The second phase begins worse than the first ended: it improves by itself, but not over the run."""
    position = Position()
    assert [position.judge(score) for score in (5.0, 3.0, 4.0, 3.0)] == [True, True, False, False]
    assert (position.stale, position.best) == (2, 3.0)
    position.next_phase()
    assert (position.stale, position.phase, position.phase_step) == (0, 1, 0)
    assert [(position.judge(score), position.stale) for score in (9.0, 8.0, 8.5, 7.0, 2.0)] == [
        (False, 0), (False, 0), (False, 1), (False, 0), (True, 0),
    ]  # fmt: skip
    assert (position.best, position.phase_best) == (2.0, 2.0)
