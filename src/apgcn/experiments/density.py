"""How are the steps distributed? Counted honestly, and smoothed as the paper draws them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apgcn.experiments.exhibit import Series
from apgcn.experiments.record import Record
from apgcn.experiments.store import Store

POINTS = 331


def histogram(records: Sequence[Record], *, name: str = "counted") -> Series:
    """The share of nodes, over all runs, that took K = 1, 2, ... steps."""
    longest = max(len(record.steps_histogram) for record in records)
    counts = np.zeros(longest)
    for record in records:
        counts[: len(record.steps_histogram)] += record.steps_histogram
    return Series(name, tuple(range(1, longest + 1)), tuple((counts / counts.sum()).tolist()), kind="bars")


def smoothed(store: Store, records: Sequence[Record], *, name: str) -> Series | None:
    """A Gaussian kernel density of every node's K averaged over runs: the paper's picture.

    None where all nodes have the same average, which has no density.
    """
    from scipy import stats

    averages = store.mean_steps(records)
    if np.ptp(averages) < 1e-9:
        return None
    longest = max(len(record.steps_histogram) for record in records)
    grid = np.linspace(0, longest + 1, POINTS)
    density = stats.gaussian_kde(averages)(grid)
    return Series(name, tuple(grid.round(4).tolist()), tuple(density.round(6).tolist()))
