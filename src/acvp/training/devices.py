"""Processes and devices: a Fabric for what was asked, or one line that says what is not there."""

from __future__ import annotations

import os

import torch
from lightning_fabric import Fabric

from acvp.errors import UserError
from acvp.models.acceleration import cpu_has_bfloat16
from acvp.training.config import TrainConfig


def make_fabric(config: TrainConfig) -> Fabric:
    """Return a Fabric with its processes launched."""
    device = _device(config)
    _refuse_precision(config, device)
    workers, nodes = _torchrun() or (config.devices, 1)
    fabric = Fabric(
        accelerator=device,
        devices=workers,
        num_nodes=nodes,
        strategy="ddp" if workers * nodes > 1 else "auto",
        precision="bf16-mixed" if config.precision == "bf16" else "32-true",
    )
    fabric.launch()
    return fabric


def _torchrun() -> tuple[int, int] | None:
    """Return processes per node and nodes where torchrun started this process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return local, int(os.environ["WORLD_SIZE"]) // local


def _device(config: TrainConfig) -> str:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if config.device == "auto":
        return "cuda" if there["cuda"] else "mps" if there["mps"] else "cpu"
    if not there[config.device]:
        found = ", ".join(name for name, is_there in there.items() if is_there)
        raise UserError(f"--device {config.device}: not on this machine, which has {found}; use --device auto")
    count = torch.cuda.device_count() if config.device == "cuda" else 1 if config.device == "mps" else config.devices
    if config.devices > count:
        raise UserError(f"--devices {config.devices}: this machine has {count} {config.device} device(s)")
    return config.device


def _refuse_precision(config: TrainConfig, device: str) -> None:
    if config.precision != "bf16":
        return
    works = torch.cuda.is_bf16_supported() if device == "cuda" else device != "cpu" or cpu_has_bfloat16()
    if not works:
        raise UserError(f"--precision bf16: bfloat16 does not run on this {device}; use --precision 32")
