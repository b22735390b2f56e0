"""The predictors at hand: known by name, loaded when first asked for, shared by all who play."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from acvp.data.views import get_view
from acvp.errors import UserError
from acvp.evaluation.subjects import COPY_LAST, Subject, baselines
from acvp.models import About, PixelPredictor, Predictor
from acvp.training.predictors import load, packaged

DEFAULT = "freeway"
"""The predictor that plays where none is named."""

Loader = Callable[[], Predictor]


class Cast:
    """Predictors by name; the last one repeats the frame it saw, to judge the others by."""

    def __init__(self, loaders: Mapping[str, Loader], *, temperature: float = 0.0, seed: int = 0) -> None:
        """With a temperature, those that can draw what they predict do so, by the seed."""
        if not loaders:
            raise UserError("no predictor to play: name one with --run or --pretrained")
        self._loaders, self._temperature, self._seed = dict(loaders), temperature, seed
        self._loaded: dict[str, Subject] = {}
        self._lock = Lock()
        self.first = next(iter(loaders))
        self.names = (*(name for name in loaders if name != COPY_LAST), COPY_LAST)

    def get(self, name: str) -> Subject:
        """Return a predictor under its name; UserError says why it cannot be played."""
        if name not in self.names:
            raise UserError(f"no predictor is called {name[:80]!r}; there are {', '.join(self.names)}")
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._copy_last() if name == COPY_LAST else self._load(name)
            return self._loaded[name]

    def _load(self, name: str) -> Subject:
        predictor = self._loaders[name]()
        if predictor.about is None:
            raise UserError(f"{name}: this predictor does not say of what game it is; train it with acvp train")
        if isinstance(predictor, PixelPredictor):
            predictor.sample(self._temperature, self._seed)
        return Subject(name=name, predictor=predictor.eval(), view=get_view(predictor.about.view))

    def _copy_last(self) -> Subject:
        like = self._loaded.get(self.first) or self._load(self.first)
        copy_last = next(each for each in baselines(like) if each.name == COPY_LAST)
        copy_last.predictor.about = like.predictor.about
        return copy_last


def gather(runs: Sequence[Path], pretrained: Sequence[str], *, temperature: float = 0.0, seed: int = 0) -> Cast:
    """Return the predictors of folders and names, the default one without either, and all that come with acvp."""
    names = pretrained if runs or pretrained else (DEFAULT,)
    loaders: dict[str, Loader] = {}
    for path in runs:
        _add(loaders, _name(path), path)
    for name in names:
        _add(loaders, name, name)
    for name in packaged():
        if name not in loaders:
            _add(loaders, name, name)
    return Cast(loaders, temperature=temperature, seed=seed)


def about(subject: Subject) -> About:
    """Return what a predictor of a cast says about itself."""
    assert subject.predictor.about is not None, subject.name
    return subject.predictor.about


def _add(loaders: dict[str, Loader], name: str, place: str | Path) -> None:
    if name in loaders:
        raise UserError(f"two predictors are called {name}: give one of them another folder name")
    loaders[name] = lambda: load(place)


def _name(path: Path) -> str:
    resolved = path.resolve()
    return resolved.parent.name if resolved.name == "predictor" else resolved.name
