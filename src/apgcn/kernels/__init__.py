"""Which loops are written out? Those that PyTorch has no single call for: by numba on a processor, by Triton on a GPU.

Everything here has a plain twin in PyTorch, its reference in the tests, which is used wherever this does not apply:
where numba or Triton is not installed, in double precision, inside `plainly()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

PLACES = {"cpu": ("numba", "apgcn.kernels.cpu"), "cuda": ("triton", "apgcn.kernels.gpu")}

_wanted = True


def kernels_for(*tensors: Tensor) -> ModuleType | None:
    """`kernels.cpu` or `kernels.gpu`, if it takes these tensors."""
    if not _wanted or any(one.dtype != torch.float32 for one in tensors):
        return None
    return _installed(tensors[0].device.type)


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
    return import_module(module) if find_spec(package) else None
