"""A training shared by two processes, for a test: model, store, run folder, devices as arguments."""

import sys
from pathlib import Path

import torch.distributed

from acvp.data.store import EpisodeStore
from tests.training.small import run
from tests.training.test_trainer import sharing_config

if __name__ == "__main__":
    model, store, folder, devices = sys.argv[1:]
    ended = run(EpisodeStore(store), sharing_config(model), Path(folder), devices=int(devices))
    print("two processes" if torch.distributed.get_world_size() == 2 else "alone")
    sys.exit(ended.exit_code)
