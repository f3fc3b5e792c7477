"""How are the steps distributed? Counted honestly, and smoothed as the paper draws them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apgcn.benchmark.artifacts import Series
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store
from apgcn.errors import BrokenFile

POINTS = 331
NARROWEST = 0.15  # steps: where nearly all nodes agree, a narrower kernel would draw a spike that hides the rest


def histogram(records: Sequence[Record], *, name: str = "counted") -> Series:
    """The share of nodes, over all runs, that took K = 1, 2, ... steps."""
    longest = max(len(record.steps_histogram) for record in records)
    counts = np.zeros(longest)
    for record in records:
        counts[: len(record.steps_histogram)] += record.steps_histogram
    return Series(name, tuple(range(1, longest + 1)), tuple((counts / counts.sum()).tolist()), kind="bars")


def smoothed(store: Store, records: Sequence[Record], *, name: str) -> Series:
    """The density of every node's K averaged over runs: the paper's picture.

    Where the archive of the steps is damaged it has no points, and its name says so.
    """
    longest = max(len(record.steps_histogram) for record in records)
    grid = np.linspace(0, longest + 1, POINTS)
    try:
        density = kernel_density(store.mean_steps(records), grid)
    except BrokenFile:
        return Series(f"{name} (steps are missing)", (), ())
    return Series(name, tuple(grid.round(4).tolist()), tuple(density.round(6).tolist()))


def kernel_density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """A Gaussian kernel density with Scott's bandwidth, but never narrower than `NARROWEST`.

    >>> kernel_density(np.array([3.0, 3.0]), np.array([3.0])).round(2)  # one Gaussian: 1 / (0.15 sqrt(2 pi))
    array([2.66])
    """
    bandwidth = max(NARROWEST, float(np.std(values, ddof=1)) * len(values) ** -0.2) if len(values) > 1 else NARROWEST
    centres, counts = np.unique(values, return_counts=True)
    kernels = np.exp(-0.5 * ((grid[:, None] - centres) / bandwidth) ** 2) / (bandwidth * np.sqrt(2 * np.pi))
    return kernels @ counts / len(values)
