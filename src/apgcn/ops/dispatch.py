"""Are there loops written out for this device? By numba for a processor, by Triton for a GPU: see `kernels`.

Every one of them has a plain twin in PyTorch, its reference in the tests, which is used wherever this says None: where
numba or Triton is not installed or does not work (Triton needs a C compiler), in double precision, for very wide rows,
on another GPU than the present one, inside `reference_kernels()`.
"""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from apgcn._utils.process import uninterrupted

PLACES = {"cpu": ("numba", "apgcn.ops.kernels.cpu"), "cuda": ("triton", "apgcn.ops.kernels.gpu")}

WIDEST = 512  # floats of a row: it must find room in registers or be cut by the compiler, which takes it long
MAX_PLACES = 2**31  # in a matrix on a GPU, whose loops count them in 32 bits

_wanted = True


def select_kernels(*tensors: Tensor, rows: int, width: int) -> ModuleType | None:
    """`kernels.cpu` or `kernels.gpu`, if it takes these tensors and matrices of so many rows and columns."""
    device = tensors[0].device
    if width > WIDEST or any(one.dtype != torch.float32 for one in tensors):
        return None
    if device.type == "cuda" and rows * width >= MAX_PLACES:
        return None
    return kernels_for_device(device)


def kernels_for_device(device: torch.device) -> ModuleType | None:
    """The same, whatever the tensors. Triton compiles for the present GPU alone."""
    if not _wanted or (device.type == "cuda" and device.index not in (None, torch.cuda.current_device())):
        return None
    return _installed(device.type)


@contextmanager
def reference_kernels() -> Iterator[None]:
    """PyTorch's own calls alone inside the block."""
    global _wanted
    before, _wanted = _wanted, False
    try:
        yield
    finally:
        _wanted = before


@cache
def _installed(device: str) -> ModuleType | None:
    if device not in PLACES or not find_spec(PLACES[device][0]):
        return None
    package, module = PLACES[device]
    try:
        with uninterrupted():
            kernels = import_module(module)
        kernels.random_bits(torch.zeros(1, 1, dtype=torch.int64, device=device), 0, 1)
    except torch.OutOfMemoryError:
        raise
    except (ImportError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        warnings.warn(f"{package} is installed but does not work, so training is slow: {error}", stacklevel=3)
        return None
    return kernels
