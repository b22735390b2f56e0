"""Films of some windows: chosen and checked before the long work, shot and written after it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from acvp.data.windows import Window
from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError
from acvp.evaluation.config import EvaluateConfig, parse_crop, strip_steps
from acvp.evaluation.film import Film, shoot
from acvp.evaluation.horizon import Progress
from acvp.evaluation.objects import Positions, find_positions
from acvp.evaluation.places import HeldOutPart, Place, choose_places
from acvp.evaluation.strips import check_crop, crop_strip, strip
from acvp.evaluation.subjects import Subject, check_alike
from acvp.evaluation.video import ENCODERS, check_format

VIDEOS_NAME, STRIPS_NAME = "videos", "strips"


class Studio:
    """Makes the videos and strips of an evaluation; refuses early what it could not make later."""

    def __init__(self, subjects: Sequence[Subject], part: HeldOutPart, config: EvaluateConfig) -> None:
        check_alike(subjects, part.store)
        self.subjects, self.store, self.config = subjects, part.store, config
        self.window = Window(max(subject.predictor.context for subject in subjects), config.film_steps)
        self.places: list[Place] = []
        self.crop = None if config.crop is None else parse_crop(config.crop)
        if config.videos:
            for name in config.video_formats:
                check_format(name)
            self.places = choose_places(self.store, self.window, config.videos, seed=config.seed, option="video-steps")
        if self.crop:
            check_crop(self.crop, *subjects[0].predictor.config.frame[:2])

    def write(self, out: Path, progress: Progress) -> list[dict[str, str]]:
        """Write the files of every film and return their names."""
        positions = self._positions()
        films = []
        for number, place in enumerate(self.places):
            progress(number, len(self.places))
            film = shoot(
                self.subjects,
                self.store,
                place,
                context=self.window.context,
                steps=self.window.horizon,
                positions=positions,
            )
            films.append({"title": film.title} | self._write(film, out, number))
        return films

    def _write(self, film: Film, out: Path, number: int) -> dict[str, str]:
        steps = strip_steps(self.config.strip, film.steps)
        files = {f"{VIDEOS_NAME}/{number}.{name}": ENCODERS[name](film) for name in self.config.video_formats}
        files[f"{STRIPS_NAME}/{number}.png"] = strip(film, steps)
        if self.crop:
            files[f"{STRIPS_NAME}/{number}-crop.png"] = crop_strip(film, steps, self.crop)
        for name, data in files.items():
            make_folder((out / name).parent)
            write_atomic(out / name, data)
        kinds = {f"{VIDEOS_NAME}/{number}.mp4": "mp4", f"{VIDEOS_NAME}/{number}.gif": "gif"}
        kinds |= {f"{STRIPS_NAME}/{number}.png": "strip", f"{STRIPS_NAME}/{number}-crop.png": "crop"}
        return {kinds[name]: name for name in files}

    def _positions(self) -> Positions | None:
        """Return where the controlled object is, None where that is not known: then no box is drawn."""
        try:
            return find_positions(self.store, self.places, self.window.length) if self.places else None
        except UserError:
            return None
