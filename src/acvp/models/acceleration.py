"""Optional speed: compiled networks and bfloat16 arithmetic, where the machine has them."""

from contextlib import AbstractContextManager, nullcontext

import torch

from acvp.models.predictor import Predictor


def compile_networks(predictor: Predictor) -> None:
    """Compile the encoder and decoder in place with torch.compile; needs a C++ compiler; state-dict names stay."""
    for name in ("encoder", "decoder"):
        network = getattr(predictor, name, None)
        if isinstance(network, torch.nn.Module):
            network.compile()


def bfloat16(device: torch.device, *, enabled: bool = True) -> AbstractContextManager[object]:
    """Return a context in which convolutions and products run in bfloat16; refuse a device that has none."""
    if not enabled:
        return nullcontext()
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise ValueError(f"{torch.cuda.get_device_name(device)} has no bfloat16; train in float32 instead")
    return torch.autocast(device.type, dtype=torch.bfloat16)
