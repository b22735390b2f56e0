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
from acvp.models.normalizer import Normalizer
from acvp.models.predictor import (
    Predictions,
    Predictor,
    PredictorConfig,
    State,
    build_predictor,
    imagine,
    squared_error_loss,
    unroll,
)
from acvp.models.recurrent import RecurrentConfig, RecurrentPredictor
from acvp.models.registry import config_class, config_from_dict, config_to_dict, kind_of, kinds
from acvp.models.rollout import rollout
from acvp.models.transform import Outcome

__all__ = [
    "About",
    "ActionError",
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
    "Normalizer",
    "Outcome",
    "Predictions",
    "Predictor",
    "PredictorConfig",
    "RecurrentConfig",
    "RecurrentPredictor",
    "State",
    "bfloat16",
    "build_predictor",
    "compile_networks",
    "config_class",
    "config_from_dict",
    "config_to_dict",
    "fingerprint",
    "imagine",
    "keep_freed_memory",
    "kind_of",
    "kinds",
    "predictor_files",
    "predictor_from_files",
    "rollout",
    "squared_error_loss",
    "unroll",
    "without_denormals",
]
