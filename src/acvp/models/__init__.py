"""The paper's section 3: predictors behind one interface, and what every predictor is loaded, checked and run with."""

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
from acvp.models.config import (
    DatasetSplit,
    PredictorConfig,
    config_class,
    config_from_dict,
    config_to_dict,
    find_class,
    kind_of,
    kinds,
)
from acvp.models.devices import bfloat16, compile_networks, keep_freed_memory, pick_device, without_denormals
from acvp.models.heads import Outcome
from acvp.models.networks import (
    FeedforwardConfig,
    FeedforwardPredictor,
    NoActionConfig,
    NoActionPredictor,
    RecurrentConfig,
    RecurrentPredictor,
)
from acvp.models.pixels import Normalizer
from acvp.models.predictor import (
    ActionFactors,
    HistoryPredictor,
    Predictions,
    Predictor,
    State,
    TrainingBatch,
    build_predictor,
    imagine,
    squared_error_loss,
    unroll,
)
from acvp.models.rollout import Rollout, rollout, rollout_with_rewards

__all__ = [
    "About",
    "ActionError",
    "ActionFactors",
    "ConfigError",
    "CopyLastFrame",
    "CopyLastFrameConfig",
    "DatasetSplit",
    "FeedforwardConfig",
    "FeedforwardPredictor",
    "FrameError",
    "HistoryPredictor",
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
    "Rollout",
    "State",
    "TrainingBatch",
    "bfloat16",
    "build_predictor",
    "compile_networks",
    "config_class",
    "config_from_dict",
    "config_to_dict",
    "find_class",
    "fingerprint",
    "imagine",
    "keep_freed_memory",
    "kind_of",
    "kinds",
    "pick_device",
    "predictor_files",
    "predictor_from_files",
    "rollout",
    "rollout_with_rewards",
    "squared_error_loss",
    "unroll",
    "without_denormals",
]
