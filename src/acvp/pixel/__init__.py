"""The pixel-exact predictor: a color for every pixel, so that every prediction is a possible frame."""

from acvp.pixel.config import ObjectConfig, PixelConfig
from acvp.pixel.object_predictor import ObjectPredictor
from acvp.pixel.palette import UnknownColorWarning
from acvp.pixel.predictor import PixelPredictor

__all__ = ["ObjectConfig", "ObjectPredictor", "PixelConfig", "PixelPredictor", "UnknownColorWarning"]
