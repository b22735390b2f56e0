"""A short hash that tells predictors apart: results that are kept say by it which weights they are of."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass

from acvp.models.predictor import Predictor


def fingerprint(predictor: Predictor) -> str:
    """Return a hash of a predictor's weights and configuration, of which defaults do not count: there may be more of
    them one day.
    """
    config = predictor.config
    assert is_dataclass(config)
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    chosen = {each.name: chosen[each.name] for each in fields(config) if chosen[each.name] != each.default}
    digest = hashlib.sha256(repr((type(config).__name__, chosen)).encode())
    for name, tensor in predictor.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.numpy(force=True).tobytes())
    return digest.hexdigest()[:16]
