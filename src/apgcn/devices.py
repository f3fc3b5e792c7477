"""Which device does a name mean, and is it here?"""

from __future__ import annotations

import re

import torch

from apgcn.errors import InvalidInput, MissingDevice


def resolve(name: str) -> torch.device:
    """The device called `cpu`, `cuda` or `cuda:N`."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise InvalidInput(f"device must be cpu, cuda or cuda:N, got {name!r}.")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MissingDevice(
            f"device {name} needs a CUDA GPU, but PyTorch sees {torch.cuda.device_count()} here; try cpu."
        )
    return device
