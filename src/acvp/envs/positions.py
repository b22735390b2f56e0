"""Where the controlled object of the paper's five games is, read from the console's 128 bytes of RAM."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ram = npt.NDArray[np.uint8]  # (128,)
Position = tuple[float, float] | None

POSITIONS: dict[str, Callable[[Ram], Position]] = {}
"""Reader of the (row, column) of the object's centre in the 210×160 frame, by ROM name."""
