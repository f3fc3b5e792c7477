"""Choice between fused kernels and the PyTorch reference.

`kernels.cpu` is compiled by numba, `kernels.gpu` by Triton. Each kernel has a reference in plain PyTorch, with which
`tests/ops/test_kernels.py` compares it. The reference is used wherever the functions here return None: where numba or
Triton is not installed or does not work (Triton needs a C compiler), in double precision, for very wide rows, on a GPU
other than the current one, and inside `reference_kernels()`.
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

from apgcn._utils.process import defer_signals

KERNEL_PACKAGES = {"cpu": ("numba", "apgcn.ops.kernels.cpu"), "cuda": ("triton", "apgcn.ops.kernels.gpu")}

MAX_WIDTH = 512  # floats in a row: wider rows do not fit into registers and compile slowly
MAX_GPU_ELEMENTS = 2**31  # of a matrix: the GPU kernels index with 32 bits

_enabled = True


def select_kernels(*inputs: Tensor, rows: int, width: int) -> ModuleType | None:
    """Return the kernels for these inputs and for matrices of shape (rows, width), or None for the reference.

    Parameters
    ----------
    inputs : Tensor
        The kernels' inputs; all on one device.
    rows, width : int
        Size of the largest dense matrix of one run.

    Returns
    -------
    The package `kernels.cpu` or `kernels.gpu`, or None
    """
    device = inputs[0].device
    if width > MAX_WIDTH or any(tensor.dtype != torch.float32 for tensor in inputs):
        return None
    if device.type == "cuda" and rows * width >= MAX_GPU_ELEMENTS:
        return None
    return kernels_for_device(device)


def kernels_for_device(device: torch.device) -> ModuleType | None:
    """Return the kernels for a device, or None for the reference.

    Triton compiles for the current GPU only.
    """
    if not _enabled or (device.type == "cuda" and device.index not in (None, torch.cuda.current_device())):
        return None
    return _load_kernels(device.type)


@contextmanager
def reference_kernels() -> Iterator[None]:
    """Use the PyTorch reference inside the block."""
    global _enabled
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before


@cache
def _load_kernels(device_type: str) -> ModuleType | None:
    """Import the kernels and run the smallest of them; warn once where they do not work."""
    if device_type not in KERNEL_PACKAGES or not find_spec(KERNEL_PACKAGES[device_type][0]):
        return None
    compiler, package = KERNEL_PACKAGES[device_type]
    try:
        with defer_signals():
            kernels = import_module(package)
        kernels.random_bits(torch.zeros(1, 1, dtype=torch.int64, device=device_type), 0, 1)
    except torch.OutOfMemoryError:
        raise
    except (ImportError, RuntimeError, OSError, subprocess.SubprocessError) as error:
        warnings.warn(f"{compiler} is installed but does not work, so training is slow: {error}", stacklevel=3)
        return None
    return kernels
