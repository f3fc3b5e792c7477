"""CPU kernels of sums over the values of a run, in an order that does not depend on the number of runs.

The reference is `torch.sum`; `tests/ops/test_reductions.py` compares them. Sums are accumulated in double precision.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from apgcn.ops.kernels.cpu.jit import kernel, to_numpy

LANES = 8  # independent partial totals, which fill SIMD registers


def run_sums(x: Tensor, *, squared: bool = False) -> Tensor:
    """Return the sum of the values, or of their squares, of every run: (runs, ...) to (runs,)."""
    output = torch.empty(len(x))
    _run_sums(*to_numpy(x.flatten(1) if x.ndim > 1 else x[:, None], output), squared)
    return output


def column_sums(x: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the sum over the rows of every run, each times its weight.

    Shapes
    ------
    x : (runs, rows, columns)
    weights : (runs, rows)
    returned : (runs, columns)
    """
    output = torch.empty(len(x), x.shape[2])
    weights = torch.ones(1, x.shape[1]) if weights is None else weights
    _column_sums(*to_numpy(x, weights, output))
    return output


@kernel
def _run_sums(x, output, squared):
    runs, count = x.shape
    full = count // LANES * LANES
    totals = np.empty(LANES, np.float64)
    for run in range(runs):
        values = x[run]
        totals[:] = 0.0
        for start in range(0, full, LANES):
            for lane in range(LANES):
                value = np.float64(values[start + lane])
                totals[lane] += value * value if squared else value
        total = 0.0
        for lane in range(LANES):
            total += totals[lane]
        for index in range(full, count):
            value = np.float64(values[index])
            total += value * value if squared else value
        output[run] = total


@kernel
def _column_sums(x, weights, output):
    runs, rows, columns = x.shape
    totals = np.empty(columns, np.float64)
    for run in range(runs):
        run_weights = weights[run % len(weights)]
        totals[:] = 0.0
        for row in range(rows):
            weight = run_weights[row]
            if weight != 0:
                for column in range(columns):
                    totals[column] += np.float64(weight * x[run, row, column])
        for column in range(columns):
            output[run, column] = totals[column]
