"""How sure is a mean over runs?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

RESAMPLES = 1000


def bootstrap_half_width(
    values: Sequence[float] | np.ndarray, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> float | None:
    """The half-width of a bootstrap interval for the mean: its larger side, as the paper reports it.

    The runs are resampled as if they were independent. None for a single value, which says nothing of its spread.

    Examples
    --------
    >>> bootstrap_half_width([0.5, 0.5, 0.5])
    0.0
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return None
    drawn = np.random.default_rng(seed).integers(len(sample), size=(resamples, len(sample)))
    return _larger_side(sample[drawn].mean(axis=1), sample.mean(), level=level)


def split_half_width(
    values: Sequence[float] | np.ndarray,
    splits: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float | None:
    """The same, but whole splits are resampled: runs on one split share its luck, so they are not independent.

    Parameters
    ----------
    values : sequence of float
        One per run.
    splits : sequence
        Which split each run was trained on.

    Returns
    -------
    float, or None where there is but one split.

    Examples
    --------
    Two splits with runs that agree within each: as wide as if there were two runs.

    >>> split_half_width([0.8, 0.8, 0.9, 0.9], ["a", "a", "b", "b"]) == bootstrap_half_width([0.8, 0.9])
    True
    """
    sample = np.asarray(values, dtype=np.float64)
    number = {split: place for place, split in enumerate(dict.fromkeys(splits))}
    if len(number) < 2:
        return None
    of_run = np.array([number[split] for split in splits])
    sums, counts = np.bincount(of_run, weights=sample), np.bincount(of_run)
    drawn = np.random.default_rng(seed).integers(len(number), size=(resamples, len(number)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return _larger_side(means, sample.mean(), level=level)


def _larger_side(means: np.ndarray, centre: float, *, level: float) -> float:
    """How far the percentile interval of resampled means reaches from the centre, on its longer side."""
    tail = 50 * (1 - level)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(max(high - centre, centre - low))
