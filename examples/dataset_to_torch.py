"""A dataset in your own torch loop: windows of frames and actions for any network."""

from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

import acvp
from acvp.data.dataset import WindowDataset
from acvp.data.frames import GRAY_84
from acvp.data.merge import split
from acvp.data.windows import Window


def main(data: Path = Path("stores/freeway"), steps: int = 1000, batch_size: int = 32) -> float:
    train, _ = split(acvp.EpisodeStore(data), test_fraction=0.1)
    windows = WindowDataset(train, Window(context=4, horizon=1), batch_size, view=GRAY_84, seed=0, steps=steps)
    network = nn.Sequential(nn.Conv2d(4, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 1, 5, padding=2))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    loss = torch.zeros(())
    for batch in DataLoader(windows, batch_size=None):  # the dataset makes the batches
        frames = batch.frames[..., 0] / 255  # (B, 5, 84, 84); the actions are batch.actions (B, 4)
        loss = nn.functional.mse_loss(network(frames[:, :4]), frames[:, 4:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    print(f"loss {main():.5f}")
