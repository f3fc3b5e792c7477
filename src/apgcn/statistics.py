"""How sure is a mean over runs?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bootstrap_half_width(
    values: Sequence[float] | np.ndarray, *, level: float = 0.95, resamples: int = 1000, seed: int = 0
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
    tail = 50 * (1 - level)
    low, high = np.percentile(sample[drawn].mean(axis=1), [tail, 100 - tail])
    return float(max(high - sample.mean(), sample.mean() - low))
