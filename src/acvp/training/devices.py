"""Processes and devices: a Fabric for what was asked, or one line that says what is not there."""

from __future__ import annotations

import os

import torch
from lightning_fabric import Fabric

from acvp.errors import UserError
from acvp.models import pick_device
from acvp.models.acceleration import cpu_has_bfloat16
from acvp.training.config import TrainConfig


def make_fabric(config: TrainConfig) -> Fabric:
    """Return a Fabric with its processes launched."""
    device = _device(config)
    _refuse_precision(config, device)
    workers, nodes = _torchrun() or (config.devices, 1)
    fabric = Fabric(
        accelerator=device.type,
        devices=workers if device.index is None else [device.index],
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


def _device(config: TrainConfig) -> torch.device:
    device = pick_device(config.device)
    if device.index is not None and config.devices > 1:
        raise UserError(
            f"--device {config.device} is one device; several need --device cuda --devices {config.devices}"
        )
    count = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device.type, config.devices)
    if config.devices > count:
        raise UserError(f"--devices {config.devices}: this machine has {count} {device.type} device(s)")
    return device


def _refuse_precision(config: TrainConfig, device: torch.device) -> None:
    if config.precision != "bf16":
        return
    works = torch.cuda.is_bf16_supported() if device.type == "cuda" else device.type != "cpu" or cpu_has_bfloat16()
    if not works:
        raise UserError(f"--precision bf16: bfloat16 does not run on this {device.type}; use --precision 32")
