"""Which loops are written out? Those that PyTorch has no single call for: by numba on a processor, by Triton on a GPU.

Everything here has a plain twin in PyTorch, its reference in the tests, which is used wherever this does not apply:
where numba or Triton is not installed, in double precision, inside `plainly()`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

PLACES = {"cpu": ("numba", "apgcn.kernels.cpu"), "cuda": ("triton", "apgcn.kernels.gpu")}

WIDEST = 512  # floats of a row: it must find room in registers or be cut by the compiler, which takes it long

_wanted = True


def kernels_for(*tensors: Tensor, width: int = 1) -> ModuleType | None:
    """`kernels.cpu` or `kernels.gpu`, if it takes these tensors and rows of this width."""
    if width > WIDEST or any(one.dtype != torch.float32 for one in tensors):
        return None
    return kernels_on(tensors[0].device)


def kernels_on(device: torch.device) -> ModuleType | None:
    """The same, whatever the tensors. Triton compiles for the present GPU alone."""
    if not _wanted or (device.type == "cuda" and device.index not in (None, torch.cuda.current_device())):
        return None
    return _installed(device.type)


def kernels_everywhere() -> bool:
    """Whether every kind of device here has its loops."""
    return all(_installed(kind) for kind in ("cpu", "cuda") if kind == "cpu" or torch.cuda.is_available())


@contextmanager
def plainly() -> Iterator[None]:
    """PyTorch's own calls alone inside the block."""
    global _wanted
    before, _wanted = _wanted, False
    try:
        yield
    finally:
        _wanted = before


@cache
def _installed(device: str) -> ModuleType | None:
    if device not in PLACES:
        return None
    package, module = PLACES[device]
    if not find_spec(package):
        return None
    try:
        kernels = import_module(module)
        kernels.words(torch.zeros(1, 1, dtype=torch.int64, device=device), 0, 1)  # Triton needs a C compiler
    except Exception as error:
        warnings.warn(f"{package} is installed but does not work here, so training is slow: {error}", stacklevel=2)
        return None
    return kernels
