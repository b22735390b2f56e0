"""Look ahead before acting: a packaged predictor plans, and plays a part of Freeway without any training.

python examples/planning.py
"""

import acvp
from acvp.agents.plan import PlanConfig, Planner
from acvp.agents.play import play_policy


def main(steps: int = 40, samples: int = 4) -> float:
    """Play the first agent steps of an episode and return the score."""
    planner = Planner(acvp.load("freeway"), PlanConfig(horizon=20, samples=samples, keep=10))
    with acvp.make_game("freeway", max_steps=steps) as game:
        scores = play_policy(planner.policy, [game], episodes=1, epsilon=0.0, seed=1)
    print(f"score after {steps} agent steps: {scores.scores[0]:g}")
    return scores.scores[0]


if __name__ == "__main__":
    main()
