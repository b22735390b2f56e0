import numpy as np
import pytest

from acvp.envs import make_game
from tests.envs.sprites import SPRITES, measure

# Seaquest's submarine is cut by the waterline at the surface; Q*bert snaps sideways for one frame when it lands.
LARGEST_ERROR = {"freeway": 1.0, "seaquest": 2.0, "space_invaders": 0.1, "qbert": 5.0, "ms_pacman": 1.5}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPRITES)
def test_the_position_is_where_the_sprite_is(name: str) -> None:
    measured = measure(name, decisions=900, seed=11)
    assert len(measured.errors) > 150
    assert np.percentile(measured.errors, 98) <= 2
    assert measured.errors.max() <= LARGEST_ERROR[name]
    assert measured.unseen == 0
    # Q*bert is drawn while it falls to its end; nobody else is drawn without a position.
    assert measured.silent == 0 or name == "qbert"


def test_a_game_nobody_has_mapped_has_no_position() -> None:
    game = make_game("pong")
    game.reset(0)
    assert game.controlled_position() is None


def test_no_position_while_there_is_nothing_to_control() -> None:
    game = make_game("qbert")
    game.reset(0)
    assert game.controlled_position() is None  # the empty pyramid before the first life
    positions = [game.step(0) and game.controlled_position() for _ in range(45)]
    assert positions[-1] == pytest.approx((25.7, 77.5), abs=0.1)  # on the topmost cube
