"""The sizes of the pixel-exact network, and what the store of its game says of it: colors, motions, flashing."""

from dataclasses import dataclass

from acvp.models.checks import ConfigError, FrameShape, require_frame, require_positive, require_whole
from acvp.pixel.palette import Palette, require_palette

MAX_MOTIONS = 64


@dataclass(frozen=True, kw_only=True)
class PixelConfig:
    """The pixel-exact network."""

    actions: int
    """Number of actions, or length of a continuous action vector."""
    palette: Palette
    """The colors, each of as many values 0..255 as a frame has channels."""
    motions: tuple[tuple[int, int], ...] = ((0, 0),)
    """Pixels (down, right) by which what a cell shows may have moved since the frame before; the first: not at all."""
    older_motions: tuple[tuple[int, int], ...] = ()
    """The same from the frame before that, which shows the pose that an animated thing will have again."""
    palette_cycle: tuple[int, ...] = ()
    """For each color the number of the one that it turns into where things flash, itself where none is known; (): a
    network without that option."""
    quantized: bool = False
    """Whether the colors stand for similar ones too: a game of over 256 colors."""
    frame: FrameShape = (210, 160, 3)
    """(height, width, channels) of a frame."""
    context: int = 16
    """Real frames needed before the first prediction: the memory m."""
    cell: int = 8
    """Side p of a cell in pixels."""
    embedding: int = 16
    """Numbers E that are remembered of a cell of each frame."""
    channels: tuple[int, ...] = (32, 48, 64)
    """Features of a cell at each scale of the U-Net."""
    blocks: tuple[int, ...] = (1, 1, 2)
    """Residual blocks at each scale, on the way down and, but for the last, up again."""
    circular_padding: bool = False
    """Whether the network sees opposite edges side by side, as things do that leave on one and return on the other."""
    background_subsampling: int = 8
    """Of the cells that neither change nor hold anything unusual, one in so many is trained on, with that weight."""
    input_corruption: float = 0.0
    """Share of the windows that are trained on with patches that do not belong there, to learn to mend them."""
    palette_mask: bool = False
    """Whether training begins with looking up where in the frame each color can be; it is predicted nowhere else."""
    pixel_scale: float = 255.0
    """What (pixel - mean) is divided by."""
    predict_rewards: bool = True
    """Whether reward and end-of-episode logits are predicted too."""
    events: int = 0
    """Features of the finest grid that tell the outcome wherever they are largest, as a hit does; 0: none."""

    def __post_init__(self) -> None:
        require_frame(self.frame)
        require_palette(self.palette, self.frame[2])
        require_positive(pixel_scale=self.pixel_scale)
        require_whole(
            actions=self.actions, context=self.context, cell=self.cell, embedding=self.embedding,
            background_subsampling=self.background_subsampling,
        )
        if type(self.events) is not int or self.events < 0:
            raise ConfigError(f"events is {self.events}; it must be a whole number, 0 or more")
        if not 0 <= self.input_corruption <= 1:
            raise ConfigError(f"input_corruption is {self.input_corruption}; it is a share of the windows, 0 to 1")
        _require_motions(self.motions, self.older_motions, self.frame)
        _require_palette_cycle(self.palette_cycle, len(self.palette))
        if self.older_motions and self.context < 2:
            raise ConfigError("older_motions come from the frame before the newest: they need a context of at least 2")
        if not self.channels or len(self.channels) != len(self.blocks):
            raise ConfigError(f"channels {self.channels} and blocks {self.blocks}: one each per scale")
        for size in (*self.channels, *self.blocks):
            require_whole(**{f"a size in {self.channels}, {self.blocks}": size})

    @property
    def copies(self) -> int:
        """Ways S in which what was there may give a pixel its color: the motions, and turning into another color."""
        return len(self.motions) + len(self.older_motions) + bool(self.palette_cycle)

    @property
    def grid(self) -> tuple[int, int]:
        """(height, width) in cells."""
        return -(-self.frame[0] // self.cell), -(-self.frame[1] // self.cell)


def _require_motions(
    motions: tuple[tuple[int, int], ...], older: tuple[tuple[int, int], ...], frame: FrameShape
) -> None:
    within = all(
        len(motion) == 2 and all(type(way) is int and abs(way) < side for way, side in zip(motion, frame, strict=False))
        for motion in motions + older
    )
    different = len(set(motions)) == len(motions) and len(set(older)) == len(older)
    if not within or motions[:1] != ((0, 0),) or not different or len(motions + older) > MAX_MOTIONS:
        raise ConfigError(
            f"motions are {str(motions)[:200]} and, of the older frame, {str(older)[:200]}; they must be 1 to "
            f"{MAX_MOTIONS} different ones of less than a frame's sides (down, right), the first (0, 0)"
        )


def _require_palette_cycle(palette_cycle: tuple[int, ...], colors: int) -> None:
    known = all(type(number) is int and 0 <= number < colors for number in palette_cycle)
    if not known or len(palette_cycle) not in (0, colors):
        raise ConfigError(
            f"palette_cycle are {str(palette_cycle)[:200]}; they must be none, or for each of the {colors} colors the number "
            "of one of them"
        )
