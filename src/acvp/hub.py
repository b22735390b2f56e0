"""Predictors and datasets on the Hugging Face hub: uploaded with a card, downloaded and checked byte by byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, LocalTokenNotFoundError

from acvp.artifacts import CARD_NAME, make_card, write_folder
from acvp.console import counted
from acvp.data.formats.importer import checked_files
from acvp.data.store import INDEX_NAME, PARTS_NAME, STORE_NAME, EpisodeStore
from acvp.data.verify import verify
from acvp.durable import refuse_full
from acvp.errors import UserError, one_line

FILES = (STORE_NAME, INDEX_NAME, f"{PARTS_NAME}/*.safetensors")
"""What a dataset is made of; statistics and contact sheets beside it are not shared."""
DOWNLOADING = ".download"
"""Folder inside that of a dataset, with what is downloaded and not checked yet."""
CONNECTION_ERROR: type[BaseException] = HfHubHTTPError.__mro__[1]
"""Base class of the errors of the HTTP library that the hub's library uses: httpx, or its successor."""


def push_files(name: str, files: Mapping[str, bytes], *, private: bool) -> str:
    """Upload the files of a predictor to a repository, which is made if it is missing; return its address."""
    with tempfile.TemporaryDirectory() as folder, _hub(name):
        write_folder(Path(folder), files)
        api = HfApi()
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message="Upload with acvp")
    return str(address)


def push_dataset(name: str, store: EpisodeStore, *, private: bool) -> str:
    """Upload a dataset and its card to a repository, which is made if it is missing; return its address.

    Episodes that only an earlier upload had are deleted there.
    """
    checked_files([file for pattern in FILES for file in store.path.glob(pattern)], store.path)
    with _hub(name):
        api = HfApi()
        address = api.create_repo(name, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(
            repo_id=name, repo_type="dataset", folder_path=store.path, allow_patterns=list(FILES),
            delete_patterns=[f"{PARTS_NAME}/*"], commit_message="Upload with acvp",
        )  # fmt: skip
        api.upload_file(
            repo_id=name, repo_type="dataset", path_or_fileobj=dataset_card(name, store).encode(),
            path_in_repo=CARD_NAME, commit_message="Upload the card",
        )  # fmt: skip
    return str(address)


def pull_dataset(name: str, out: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> EpisodeStore:
    """Download a dataset into a new folder and check every byte; run again, it resumes."""
    folder = out / DOWNLOADING
    if not folder.is_dir() or len(list(out.iterdir())) > 1:
        refuse_full(out)
    with _hub(name):
        snapshot_download(name, repo_type="dataset", local_dir=folder, allow_patterns=list(FILES))
    problems = verify(folder, progress)
    if problems:
        raise UserError(f"{name} is damaged: {problems[0]}; delete {folder} to download it again")
    for part in (PARTS_NAME, INDEX_NAME, STORE_NAME):
        (folder / part).replace(out / part)
    shutil.rmtree(folder)
    return EpisodeStore(out)


def dataset_card(name: str, store: EpisodeStore) -> str:
    """Return the card of a dataset."""
    info, (height, width, _) = store.info, store.info.frame_shape
    colors = "over 256 colors" if store.palette is None else counted(len(store.palette), "color")
    return make_card(
        f"Episodes of {info.env_id}",
        tags="world-model, video-prediction, reinforcement-learning",
        text="Recorded frames with the action taken at each, lossless, for action-conditional video prediction.",
        facts={
            "Frames": f"{store.frames:,} of {height}×{width} in {counted(len(store), 'episode')}, {colors}",
            "Actions": ", ".join(info.action_meanings),
            "Played by": f"{info.played_by}, seed {info.seed}",
            "Made with": ", ".join(f"{library} {version}" for library, version in info.versions.items()) or "unknown",
            "Digest": store.digest,
        },
        example=f'# acvp data pull {name} --out data\nimport acvp\n\nstore = acvp.EpisodeStore("data")',
    )


@contextmanager
def _hub(name: str) -> Iterator[None]:
    """Turn what the hub and its library refuse into one line with the cure."""
    try:
        yield
    except LocalTokenNotFoundError as error:
        raise UserError(f"{name}: you are not logged in to the hub; run hf auth login, or set HF_TOKEN") from error
    except LocalEntryNotFoundError as error:
        raise UserError(f"{name}: the hub cannot be reached; check the connection and run it again") from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(f"{name}: the hub answered: {one_line(str(error))[:200]}") from error
    except CONNECTION_ERROR as error:
        reason = one_line(str(error))[:200]
        raise UserError(f"{name}: the hub cannot be reached ({reason}); check the connection") from error
