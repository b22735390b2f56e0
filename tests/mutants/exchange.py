"""Mutants of the exchange with others: formats of datasets, and the hub."""

from __future__ import annotations

from tests.mutants import Mutant

EXCHANGE = (
    Mutant(
        "a video that starts between two frames starts a frame early",
        "data/formats/lerobot.py",
        "first_frame=round(first)",
        "first_frame=int(first)",
        "data/formats/test_tables.py::test_start_times_below_a_frame_are_those_of_the_frame",
    ),
    Mutant(
        "a terminated episode of another writer is truncated, too",
        "data/formats/rows.py",
        "cut = not ended if self.truncated is None",
        "cut = True if self.truncated is None",
        "data/formats/test_tables.py::test_older_versions_of_lerobot_are_read",
    ),
    Mutant(
        "exported tables end an episode a row late",
        "data/formats/rows.py",
        "last = numbers >= steps - 1",
        "last = numbers >= steps",
        "data/formats/test_tables.py::test_the_library_opens_what_is_exported",
    ),
    Mutant(
        "rows of every exported block are numbered from 0",
        "data/formats/lerobot_writer.py",
        '"index": self._rows + np.arange(count),',
        '"index": np.arange(count),',
        "data/formats/test_tables.py::test_lerobot_s_tables_are_those_of_the_whole_dataset",
    ),
    Mutant(
        "exported deviations are root mean squares",
        "data/formats/lerobot_writer.py",
        "squares / count - mean**2",
        "squares / count",
        "data/formats/test_tables.py::test_lerobot_s_tables_are_those_of_the_whole_dataset",
    ),
    Mutant(
        "a private predictor is published",
        "hub.py",
        "address = api.create_repo(name, private=private, exist_ok=True)",
        "address = api.create_repo(name, private=False, exist_ok=True)",
        "test_hub.py::test_a_predictor_comes_back_with_its_card",
    ),
    Mutant(
        "a saved dataset names files elsewhere",
        "data/formats/huggingface.py",
        "        checked_files(list(_named(source)), folder)\n",
        "        list(_named(source))\n",
        "data/formats/test_tables.py::test_a_saved_dataset_names_no_file_outside_of_it",
    ),
    Mutant(
        "actions that are images are opened by their paths",
        "data/formats/huggingface.py",
        "if library.features.features.require_decoding(split.features[name]):",
        "if False:",
        "data/formats/test_tables.py::test_a_column_of_numbers_opens_no_media",
    ),
)
