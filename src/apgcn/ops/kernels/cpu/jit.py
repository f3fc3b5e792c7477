"""Compilation of the CPU kernels by numba, and conversion of their arguments.

Compiled kernels are kept on disk, where a folder is writable, so that each is compiled once for all processes. numba
discards a cached function when the file that defines it changes. It does not follow what is inlined from other files:
the intrinsics of `simd_rows` and the options here. `_PackageCache` therefore also stamps every entry with a digest of
all sources of this package; `test_cached_kernels_are_recompiled_when_simd_rows_changes` edits a copy.

A kernel may use numbers of an enclosing function, which become part of its key on disk, but no function that is
compiled there: that has another key in every process, so the kernel would be compiled in each. `kernel_helper` refuses
it; `test_a_second_process_compiles_no_kernel` trains in two processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher
from torch import Tensor

from apgcn._utils.process import defer_signals
from apgcn.ops.sparse import CSRIndex

# Sums may be reordered, so that they fill SIMD lanes. NaN and infinity keep their meaning.
OPTIONS: dict[str, Any] = {"fastmath": {"contract", "reassoc", "nsz", "arcp"}, "error_model": "numpy"}

ZERO, ONE = np.float32(0), np.float32(1)


def _source_digest() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


SOURCE_DIGEST = _source_digest()


class _PackageCache(FunctionCache):
    """numba's on-disk cache of one function, valid for the present sources of this package only."""

    def __init__(self, py_func: Callable):
        super().__init__(py_func)
        self._cache_file = IndexDataCacheFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=(self._impl.locator.get_source_stamp(), SOURCE_DIGEST),
        )


def kernel(function: Callable) -> Callable:
    """Compile a function on its first call from Python; a signal waits until it is compiled."""
    dispatcher = kernel_helper(function)

    def call(*arguments: Any) -> None:
        if dispatcher.overloads:
            dispatcher(*arguments)
        else:
            with defer_signals():
                dispatcher(*arguments)

    return call


def kernel_helper(function: Callable, *, nogil: bool = False, exact: bool = False) -> Any:
    """Compile a function that kernels call.

    With `nogil` it releases Python's interpreter lock; with `exact` its arithmetic is not rearranged.
    """
    if any(isinstance(cell.cell_contents, Dispatcher) for cell in function.__closure__ or ()):
        raise TypeError(
            f"{function.__qualname__} must use compiled functions of a module, not of a function around it."
        )
    options = {**OPTIONS, "fastmath": False} if exact else OPTIONS
    dispatcher = njit(nogil=nogil, **options)(function)
    with suppress(RuntimeError):  # no writable folder for the cache
        dispatcher._cache = _PackageCache(function)  # as `njit(cache=True)` does with numba's class
    return dispatcher


def to_numpy(*inputs: Tensor) -> list[np.ndarray]:
    """Return tensors as numpy arrays that share their memory; tensors to be filled must be contiguous already."""
    return [(tensor.detach() if tensor.requires_grad else tensor).contiguous().numpy() for tensor in inputs]


def csr_arrays(csr: CSRIndex) -> list[np.ndarray]:
    """Return indptr and indices as unsigned integers, so that kernels need not check for negative indices."""
    return [indices.numpy().view(f"u{indices.element_size()}") for indices in (csr.indptr, csr.indices)]
