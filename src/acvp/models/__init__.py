"""The paper's section 3: predictors behind one interface; tensors only, nothing else of acvp."""

from acvp.models.about import About
from acvp.models.acceleration import bfloat16, compile_networks, keep_freed_memory, without_denormals
from acvp.models.baselines import (
    CopyLastFrame,
    CopyLastFrameConfig,
    MeanFrame,
    MeanFrameConfig,
    MlpConfig,
    MlpPredictor,
)
from acvp.models.build import CONFIGS, AnyConfig, build_predictor, config_from_dict, config_to_dict
from acvp.models.checks import ActionError, ConfigError, FrameError, InputTypeError
from acvp.models.colours import UnknownColourWarning
from acvp.models.feedforward import FeedforwardConfig, FeedforwardPredictor, NoActionConfig, NoActionPredictor
from acvp.models.files import predictor_files, predictor_from_files
from acvp.models.fingerprint import fingerprint
from acvp.models.loss import squared_error_loss
from acvp.models.normaliser import Normaliser
from acvp.models.pixel import PixelPredictor
from acvp.models.pixel_config import PixelConfig
from acvp.models.predictor import Predictions, Predictor, State, imagine, unroll
from acvp.models.recurrent import RecurrentConfig, RecurrentPredictor
from acvp.models.rollout import rollout
from acvp.models.transform import Outcome

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
