"""How does a processor compute a hidden layer from sparse features? All that happens to a row, while it is at hand."""

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


def sparse_linear(
    structure: CSRStructure, values: Tensor, feature_mask: None, weight: Tensor, bias: Tensor, mask: PackedMask | None
) -> Tensor:
    """ReLU(X W + b) after dropout by `mask`; values (1 or runs, entries) are those after dropout."""
    hidden = weight.new_empty(len(weight), structure.shape[0], weight.shape[-1])
    forward, _ = _kernels(weight.shape[-1])
    kept = hidden[:0] if mask is None else factors(mask)
    forward(*rows_of(structure), *arrays_of(values, weight, bias, kept, hidden))
    return hidden


def sparse_linear_backward(
    structure: CSRStructure, values: Tensor, feature_mask: None, hidden: Tensor, factor: float, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of W and b; `factor` is what dropout multiplied the values with that it kept."""
    runs, _, channels = hidden.shape
    to_weight, to_bias = hidden.new_zeros(runs, structure.shape[1], channels), hidden.new_zeros(runs, 1, channels)
    _, backward = _kernels(channels)
    arrays = arrays_of(values, hidden, gradient, to_weight, to_bias)
    backward(*rows_of(structure), *arrays, np.float32(factor), structure.longest)
    return to_weight, to_bias


@cache
def _kernels(channels: int) -> tuple[Callable, Callable]:
    """Forward and backward, for a number of channels that the compiler knows.

    The second fetches and stores a row for every entry; there it pays to look for the dropped ones and leave them out.
    """

    @compiled
    def forward(pointers, columns, values, weight, bias, kept, hidden):
        total = np.empty(channels, np.float32)
        for run in range(hidden.shape[0]):
            mine, words, start = values[run % values.shape[0]], weight[run], bias[run, 0]
            for row in range(hidden.shape[1]):
                gather(channels, SMALL, mine, columns, pointers[row], pointers[row + 1], words, total)
                into = hidden[run, row]
                for i in range(channels):
                    into[i] = max(total[i] + start[i], ZERO)
                if len(kept):
                    factors = kept[run, row]
                    for i in range(channels):
                        into[i] *= factors[i]

    @compiled
    def backward(pointers, columns, values, hidden, gradient, to_weight, to_bias, factor, longest):
        kept, nnz, said = (
            np.empty(longest, np.uint32),
            np.empty(longest, np.float32),
            np.empty(channels, np.float32),
        )
        for run in range(hidden.shape[0]):
            mine, into, start = values[run % values.shape[0]], to_weight[run], to_bias[run, 0]
            for row in range(hidden.shape[1]):
                own, given = hidden[run, row], gradient[run, row]
                for i in range(channels):
                    said[i] = given[i] * factor if own[i] > ZERO else ZERO
                    start[i] += said[i]
                count = np.uint32(0)
                for entry in range(pointers[row], pointers[row + 1]):
                    kept[count], nnz[count] = columns[entry], mine[entry]
                    count += np.uint32(mine[entry] != ZERO)
                scatter(channels, SMALL, nnz, kept, np.uint32(0), count, into, said)

    return forward, backward
