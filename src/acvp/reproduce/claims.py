"""The claims: every claim of the paper, the paper's number, and the rule by which it is confirmed or refuted.

Where there is no result, a claim is *not run*; where there are too few, *incomplete*. What follows from our own choice
of sizes is *by construction*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from acvp.reproduce import control_claims as control
from acvp.reproduce import prediction_claims as prediction
from acvp.reproduce.config import PAPER_GAMES
from acvp.reproduce.evidence import Evidence, Finding

Conclusion = Literal["confirmed", "by construction", "refuted at this compute", "incomplete", "not run"]
Judge = Callable[[Evidence, str], Finding | None]
NO_GAME = ("",)
"""Of a claim that is about no game."""
THREE = 3


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of the paper."""

    number: int
    where: str
    text: str
    """In our words."""
    paper: str
    """The paper's number; – where it has none."""
    rule: str
    """When it counts as confirmed."""
    judge: Judge
    part: str
    """Part of `acvp reproduce` that tests it; empty: no part does."""
    command: str = ""
    """Command that tests it, where no part does."""
    games: tuple[str, ...] | None = None
    """Games that it is about; None: all."""
    least: int | None = None
    """Number of games in which it has to hold; None: all that were run."""
    needs: tuple[str, ...] = ()
    """Games without which nothing can be said."""
    constructed: bool = False
    """Whether it holds because we chose our sizes so."""

    @property
    def about(self) -> tuple[str, ...]:
        """The paper's games that it is about."""
        return PAPER_GAMES if self.games is None else self.games

    def conclusion(self, findings: Mapping[str, Finding]) -> Conclusion:
        """Return the conclusion on what the results say by game; games that the paper does not have do not count."""
        held = [finding.holds for game, finding in findings.items() if game in self.about]
        unknown: Conclusion = "incomplete" if held else "not run"
        if self.least is not None:
            if held.count(True) >= self.least:
                return "confirmed"
            return "refuted at this compute" if len(held) >= len(PAPER_GAMES) else unknown
        if not findings.keys() >= set(self.needs):
            return unknown
        if False in held:
            return "refuted at this compute"
        holds: Conclusion = "by construction" if self.constructed else "confirmed"
        return holds if held and None not in held else unknown

    @property
    def advice(self) -> str:
        """The command that makes its result."""
        return self.command or f"acvp reproduce --only {self.part} --out reproduction"


def _claim(number: int, where: str, part: str, judge: Judge, text: str, paper: str, rule: str, **more: Any) -> Claim:
    return Claim(number=number, where=where, part=part, judge=judge, text=text, paper=paper, rule=rule, **more)


FREEWAY, SEAQUEST, INVADERS, QBERT, PACMAN = (
    (name,) for name in ("freeway", "seaquest", "space_invaders", "qbert", "ms_pacman")
)
CLAIMS: tuple[Claim, ...] = (
    _claim(
        1, "§3, appendix A", "", prediction.sizes, "the networks have as many parameters as described",
        "57,214,787 and 90,740,547 parameters (3 actions)",
        "both networks have exactly these numbers; layers, initialization, loss and unrolling are not judged here but "
        "tested, in tests/models",
        games=NO_GAME, command="pytest tests/models/test_network_sizes.py",
    ),
    _claim(
        2, "§3.3", "", prediction.deconvolution,
        "strided deconvolution is cheaper than upsampling and convolution",
        "–", "the decoder is faster with it in every repetition", games=NO_GAME,
        command="python -m benchmarks.deconvolution",
    ),
    _claim(
        3, "§3.4", "curriculum", prediction.curriculum, "the curriculum is necessary to stabilize training", "–",
        "training on 3 and on 5 steps from the start ends with a larger error at the last step, for the same compute",
        games=FREEWAY,
    ),
    _claim(
        4, "§4", "figure3", prediction.dataset, "the data is game play of a DQN at ε = 0.3",
        "500,000 and 50,000 frames",
        "the predictors were trained on data of an agent at ε = 0.3, whatever its size",
    ),
    _claim(
        5, "§4", "", prediction.equal_sizes, "the MLP has about as many parameters as the recurrent network",
        "–",
        "it has 90 to 110 % as many, with RGB and with gray frames: by construction, since we chose its width so",
        games=NO_GAME, constructed=True, command="pytest tests/models/test_network_sizes.py",
    ),
    _claim(
        6, "figure 2", "figure2", prediction.long_run,
        "the controlled object is right for more than 250 steps, and wraps from top to bottom", "250 steps",
        "one of the networks still has the object in its place at step 250 in half of the windows, and the same one "
        "predicts more than half of the wraps",
        games=FREEWAY,
    ),
    _claim(
        7, "§4.1", "figure3", prediction.no_action,
        "without actions (naFf), other objects move, the controlled one does not",
        "–",
        "its counterfactual accuracy is not above chance, and its error at step 30 is below copying the last frame",
    ),
    _claim(
        8, "§4.1", "figure3", prediction.mlp_fails, "the MLP ends at the mean image or diverges", "–",
        "its error at the last step is at least 80 % of the mean frame's",
    ),
    _claim(
        9, "figure 3", "figure3", prediction.figure_3, "both networks have a smaller squared error than both baselines",
        "a figure, no numbers", "all four differences at the last step are below 0 with their bands",
    ),
    _claim(
        10, "figure 3", "figure3", prediction.gap, "the difference to naFf is small, except in Seaquest", "a figure",
        "the feedforward error is at most 20 % below naFf's at the last step, in Seaquest more", needs=SEAQUEST,
    ),
    _claim(
        11, "§4.1", "figure3", prediction.collisions, "collisions are predicted", "–",
        "one of the networks predicts more than half of them in steps 1–10, and more than copying the last frame does, "
        "by the lower end of its band",
        games=FREEWAY,
    ),
    _claim(
        12, "§4.1", "figure3", prediction.small_things, "small objects, such as bullets, are missed", "–",
        "small things are found less often than larger ones in steps 1–10, bands apart", games=(*INVADERS, *SEAQUEST),
    ),
    _claim(
        13, "§4.1", "figure3", prediction.new_objects, "new objects appear with reasonable shapes", "–",
        "one of the networks finds more than half of the larger things that appear in steps 1–10, and more than "
        "copying the last frame does, by the lower end of its band",
        games=SEAQUEST,
    ),
    _claim(
        14, "figure 4a", "figure3", prediction.translation,
        "the feedforward network places the object more precisely than the recurrent one", "a picture",
        "its translation error in steps 1–10 is smaller, bands apart", games=PACMAN,
    ),
    _claim(
        15, "figure 4b", "figure3", prediction.march,
        "the recurrent network knows when the invaders move, the feedforward one cannot", "every 9 steps",
        "its share of marches predicted less that of false ones is above 0.5, and above the feedforward network's",
        games=INVADERS,
    ),
    _claim(
        16, "figure 5", "figure5", control.few_steps, "with a few predicted steps an agent scores as with real frames",
        "a figure", "both networks' scores at the smallest n are not below the real frames' by two standard errors",
    ),
    _claim(
        17, "figure 5", "figure5", control.above_baselines,
        "for control, the networks are far better than the baselines", "a figure",
        "both networks score above both baselines at n = 10, by two standard errors",
    ),
    _claim(
        18, "figure 5", "figure5", control.above_random,
        "with 100 predicted steps, three of five games are far above random",
        "three of five games", "in three games one network is above random play and above every constant action",
        least=THREE,
    ),
    _claim(
        19, "table 1", "table1", control.informed_learning, "informed exploration improves DQN",
        "F 32.2 / 30.9, Q 8238 / 3876, P 2522 / 2281 (informed / random)",
        "informed exploration scores above random exploration and every constant action, by two standard errors",
        games=(*FREEWAY, *QBERT, *PACMAN),
    ),
    _claim(
        20, "table 2", "table1", control.emulator_informed, "the model informs exploration as well as the emulator",
        "F 32.2 / 32.2, Q 8238 / 7969, P 2522 / 2702 (model / emulator)",
        "its score at the end is not below the emulator's by two standard errors",
    ),
    _claim(
        21, "appendix B", "figure6", control.first_reward, "informed exploration finds the first reward much sooner",
        "86 / 4.6·10⁵ agent steps (informed / random)", "every informed run finds it before every random run",
        games=FREEWAY,
    ),
    _claim(
        22, "figure 6", "figure6", control.heat_maps, "informed exploration reaches more of the screen", "heat maps",
        "every informed run visits more cells than every random run", games=(*FREEWAY, *PACMAN),
    ),
    _claim(
        23, "appendix B", "figure6", control.gray_network,
        "the gray 1-step network is enough to inform exploration", "–",
        "with it the median first reward comes before that of random exploration",
    ),
    _claim(
        24, "figure 7", "figure7", control.similar_actions,
        "factors of actions in the same direction are alike, of opposite ones opposed", "a figure",
        "their mean cosines are above and below 0, each with p < 0.05", games=(*SEAQUEST, *INVADERS, *QBERT, *PACMAN),
    ),
    _claim(
        25, "figure 8", "figure7", control.controlled,
        "high-variance factors draw the controlled object alone, the others all else", "pictures",
        "they explain more of the object and less elsewhere than the other factors, bands apart",
    ),
    _claim(
        26, "appendix D", "figure3", prediction.different_actions, "different actions give the right different futures",
        "pictures", "counterfactual accuracy of each network is above chance, bands apart",
    ),
    _claim(
        27, "appendix E", "figure2", prediction.kept_steps, "predictions hold for hundreds of steps",
        "strips up to step 500",
        "one of the networks keeps the controlled object for 100 steps on average, by the lower end of its band",
    ),
    _claim(
        28, "appendix E", "figure2", prediction.new_stage,
        "where a stage ends, the feedforward network fails, the recurrent one keeps everything for 500 steps", "strips",
        "the recurrent network keeps the object at step 500 in more windows, by the band of the difference",
        games=FREEWAY,
    ),
    _claim(
        29, "appendix E", "figure3", prediction.steps_62_to_68,
        "the recurrent network is right at steps 62 to 68, where the feedforward one diverges", "strips",
        "the recurrent network's error at step 65 is smaller, bands apart", games=QBERT,
    ),
    _claim(
        30, "table 1", "dqn", control.agent_scores, "scores of the DQN agents",
        "F 30.9, I 698, S 13119, Q 3876, P 2281",
        "ours are not below by two standard errors",
    ),
    _claim(
        31, "§5", "", control.imagined, "future work: learning inside the model", "–",
        "an agent that learned inside a predictor scores above every constant action in the real game, by two errors",
        command="acvp agent train --env-id freeway --imagined freeway --data reproduction/freeway/train "
        "--run imagined && acvp agent evaluate --agent imagined --out imagined-score",
    ),
)  # fmt: skip
