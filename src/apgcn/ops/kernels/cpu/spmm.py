"""How does a processor multiply a sparse matrix, all runs after each other?"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import ZERO, arrays_of, compiled, rows_of
from apgcn.ops.kernels.cpu.rng import factors
from apgcn.ops.kernels.cpu.simd_rows import SMALL, gather, scatter
from apgcn.ops.rng import PackedMask
from apgcn.ops.sparse import CSRStructure

MIN_CHANNELS = 16  # with fewer, PyTorch's product is as fast


def spmm(
    structure: CSRStructure, values: Tensor, mask: PackedMask | None, dense: Tensor, *, transposed: bool
) -> Tensor | None:
    """The product, or that with the transposed matrix; None if it is not worth it.

    Shapes
    ------
    values : (1 or runs, entries)
    dense : (runs, columns, channels); rows instead of columns for the transposed
    """
    runs, _, channels = dense.shape
    if channels < MIN_CHANNELS:
        return None
    if mask is not None:
        values = values * factors(mask)
    output = dense.new_empty(runs, structure.shape[1 if transposed else 0], channels)
    kernel = _kernels(channels)[1 if transposed else 0]
    kernel(*rows_of(structure), *arrays_of(values, dense, output), structure.longest)
    return output


@cache
def _kernels(channels: int) -> tuple[Callable, Callable]:
    """The product and that with the transposed matrix, for a number of channels that the compiler knows.

    The second fetches and stores a row for every entry; there it pays to look for the dropped ones and leave them out.
    """

    @compiled
    def product(pointers, columns, values, dense, output, longest):
        for run in range(output.shape[0]):
            mine, said = values[run % values.shape[0]], dense[run]
            for row in range(output.shape[1]):
                gather(channels, SMALL, mine, columns, pointers[row], pointers[row + 1], said, output[run, row])

    @compiled
    def transposed(pointers, columns, values, dense, output, longest):
        kept, weight = np.empty(longest, np.uint32), np.empty(longest, np.float32)
        for run in range(output.shape[0]):
            mine, into = values[run % values.shape[0]], output[run]
            into[:] = ZERO
            for row in range(dense.shape[1]):
                count = np.uint32(0)
                for entry in range(pointers[row], pointers[row + 1]):
                    kept[count], weight[count] = columns[entry], mine[entry]
                    count += np.uint32(mine[entry] != ZERO)
                scatter(channels, SMALL, weight, kept, np.uint32(0), count, into, dense[run, row])

    return product, transposed
