"""Names that files of earlier versions hold, and what acvp calls the same things now.

A field, tensor or file that is renamed gets a line here; whatever reads files of earlier versions asks this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")

FIELDS = {
    "by_place": "palette_mask",
    "centred": "centered",
    "decisions": "steps",
    "depth": "horizon",
    "depths": "horizons",
    "licence": "license",
    "map_decisions": "map_steps",
    "max_decisions": "max_steps",
    "optimiser": "optimizer",
    "outcome_heads": "predict_rewards",
    "outcome_weight": "reward_weight",
    "plays": "episodes",
    "quantised": "quantized",
    "rare_share": "priority_share",
    "recolours": "palette_cycle",
    "round_edges": "circular_padding",
    "spoiled": "input_corruption",
    "still": "background_subsampling",
}
"""Keys of JSON files."""
NEGATED = {"feed_back": "teacher_forcing"}
"""Keys of truth values that now mean the opposite."""
RESULT_FIELDS = FIELDS | {
    "end": "termination",
    "ends": "terminates",
    "films": "clips",
    "goes on": "continues",
    "moments": "states",
}
"""Keys of evaluation.json, counterfactual.json and analysis.json."""
RUN_FIELDS = {"position": "trainer", "recipe": "training", "settings": "dqn"}
"""Keys of a run's config.json and of its checkpoints' state.json; the keys mean other things elsewhere."""
DQN_FIELDS = {
    "decisions_per_update": "steps_per_update",
    "evaluate_plays": "evaluate_episodes",
    "life_ends": "episodic_life",
}
"""Fields of a DQN config."""
FILES = {"optimiser.safetensors": "optimizer.safetensors"}
"""Files of a checkpoint."""
TENSORS = {
    "decisions": "steps",
    "end": "termination",
    "ends": "status",
    "moments": "optimizer",
    "normaliser": "normalizer",
    "possible": "palette_mask",
    "torso": "features",
}
"""Parts, between dots, of the names of tensors."""
_ONE, _SEVERAL = {"--run": "--predictor"}, {"--runs": "--predictors"}
OPTIONS = {
    "analyze": _ONE,
    "control": _SEVERAL,
    "counterfactual": _SEVERAL,
    "evaluate": _SEVERAL,
    "explore": _ONE | {"--sources": "--strategies"},
}
"""Options by verb, which mean other things in other verbs."""
COMMON_OPTIONS = {"--store": "--data"}
"""Options of every verb."""
FOLDERS = {"runs/agents/dreamer": "runs/agents/imagined"}
"""Folders in the commands of packaged results."""
EXPLORATION_STREAM, PRIORITY_STREAM = "expedition", "rarity"
"""Names of random streams, which give the same numbers as in earlier versions only under the same names."""


def current_fields(values: Any, fields: Mapping[str, str] = FIELDS) -> Any:
    """Return what JSON holds, with today's keys at every level."""
    if isinstance(values, dict):
        return dict(_current_field(name, value, fields) for name, value in values.items())
    return [current_fields(value, fields) for value in values] if isinstance(values, list) else values


def _current_field(name: str, value: Any, fields: Mapping[str, str]) -> tuple[str, Any]:
    if name in NEGATED:
        return NEGATED[name], not value
    return fields.get(name, name), current_fields(value, fields)


def current_text(text: str) -> str:
    """Return a sentence of a card with today's words."""
    return text.replace(" decisions", " agent steps")


def current_command(words: str | Sequence[str]) -> str:
    """Return a command line as it would be typed today; early results have the program's file as its first word."""
    if isinstance(words, str):
        return words
    program, *rest = words
    own = program.endswith(".py") and program != "__main__.py"
    start = f"python -m benchmarks.{program.removesuffix('.py')}" if own else "acvp"
    options = next((options for verb, options in OPTIONS.items() if rest[:1] == [verb]), {})
    return " ".join([start, *(_current_word(word, COMMON_OPTIONS | options) for word in rest)])


def _current_word(word: str, options: Mapping[str, str]) -> str:
    name = word.removeprefix("--").replace("-", "_")
    if word.startswith("--") and name in FIELDS:
        return f"--{FIELDS[name].replace('_', '-')}"
    return options.get(word, FOLDERS.get(word, word))


def current_run(config: dict[str, Any]) -> dict[str, Any]:
    """Return what a run's config.json or state.json holds, with today's keys."""
    values = {RUN_FIELDS.get(name, name): value for name, value in current_fields(config).items()}
    return values | ({"dqn": _current_dqn(values["dqn"])} if isinstance(values.get("dqn"), dict) else {})


def _current_dqn(config: dict[str, Any]) -> dict[str, Any]:
    return {DQN_FIELDS.get(name, name): value for name, value in config.items()}


def current_training(config: dict[str, Any]) -> dict[str, Any]:
    """Return the training config of a run with today's names of fields that have other meanings elsewhere."""
    optimizer = {"name" if name == "kind" else name: value for name, value in config.get("optimizer", {}).items()}
    return config | {"optimizer": optimizer}


def current_files(files: Mapping[str, Value]) -> dict[str, Value]:
    """Return the files of a checkpoint by today's names."""
    return {FILES.get(name, name): value for name, value in files.items()}


def current_tensors(tensors: Mapping[str, Value]) -> dict[str, Value]:
    """Return tensors by today's names; a predictor of one's own may call its layers as it likes."""
    if any("normalizer" in name.split(".") for name in tensors):  # which every predictor has: not of an early version
        return dict(tensors)
    return {_current_tensor(name): value for name, value in tensors.items()}


def _current_tensor(name: str) -> str:
    return ".".join(TENSORS.get(part, part) for part in name.split("."))
