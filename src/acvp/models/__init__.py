"""The paper's section 3: predictors behind one interface; tensors only, nothing else of acvp."""

from acvp.models.acceleration import bfloat16, compile_networks, keep_freed_memory, without_denormals
from acvp.models.artifact import About, fingerprint, predictor_files, predictor_from_files
from acvp.models.baselines import (
    CopyLastFrame,
    CopyLastFrameConfig,
    MeanFrame,
    MeanFrameConfig,
    MlpConfig,
    MlpPredictor,
)
from acvp.models.checks import ActionError, ConfigError, FrameError, InputTypeError
from acvp.models.feedforward import FeedforwardConfig, FeedforwardPredictor, NoActionConfig, NoActionPredictor
from acvp.models.normalizer import Normaliser
from acvp.models.predictor import Predictions, Predictor, State, imagine, squared_error_loss, unroll
from acvp.models.recurrent import RecurrentConfig, RecurrentPredictor
from acvp.models.registry import CONFIGS, AnyConfig, build_predictor, config_from_dict, config_to_dict
from acvp.models.rollout import rollout
from acvp.models.transform import Outcome
from acvp.pixel.config import PixelConfig
from acvp.pixel.palette import UnknownColourWarning
from acvp.pixel.predictor import PixelPredictor

__all__ = [
    "CONFIGS",
    "About",
    "ActionError",
    "AnyConfig",
    "ConfigError",
    "CopyLastFrame",
    "CopyLastFrameConfig",
    "FeedforwardConfig",
    "FeedforwardPredictor",
    "FrameError",
    "InputTypeError",
    "MeanFrame",
    "MeanFrameConfig",
    "MlpConfig",
    "MlpPredictor",
    "NoActionConfig",
    "NoActionPredictor",
    "Normaliser",
    "Outcome",
    "PixelConfig",
    "PixelPredictor",
    "Predictions",
    "Predictor",
    "RecurrentConfig",
    "RecurrentPredictor",
    "State",
    "UnknownColourWarning",
    "bfloat16",
    "build_predictor",
    "compile_networks",
    "config_from_dict",
    "config_to_dict",
    "fingerprint",
    "imagine",
    "keep_freed_memory",
    "predictor_files",
    "predictor_from_files",
    "rollout",
    "squared_error_loss",
    "unroll",
    "without_denormals",
]
