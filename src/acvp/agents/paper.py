"""Numbers of the paper that ours are shown beside (Oh et al., 2015)."""

from __future__ import annotations

from typing import Any

DQN_SCORES = {
    "ALE/Seaquest-v5": (13119.0, 538.0),
    "ALE/SpaceInvaders-v5": (698.0, 20.0),
    "ALE/Freeway-v5": (30.9, 0.2),
    "ALE/Qbert-v5": (3876.0, 106.0),
    "ALE/MsPacman-v5": (2281.0, 53.0),
}
"""Mean and standard error of the authors' DQN with random exploration, 100 episodes at ε = 0.05 (table 1)."""
FIRST_REWARD = {"ALE/Freeway-v5": {"random": 4.6e5, "informed-model": 86.0}}
"""Agent steps to the first reward, by the source of exploring actions (appendix B)."""


def paper_score(env_id: str) -> dict[str, Any] | None:
    """Return the score of the paper's DQN in a game; None where the paper has none."""
    if env_id not in DQN_SCORES:
        return None
    mean, error = DQN_SCORES[env_id]
    return {"mean": mean, "standard_error": error, "plays": 100, "source": "Oh et al., 2015, table 1: DQN"}
