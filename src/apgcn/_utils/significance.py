"""How sure is a mean over runs?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from apgcn.errors import InvalidInput

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


class RankTest(NamedTuple):
    """The outcome of an aligned Friedman test.

    `mean_ranks` has one value per model; higher values of what was measured get higher ranks.
    """

    statistic: float
    p_value: float
    mean_ranks: tuple[float, ...]

    @property
    def stars(self) -> str:
        """`**` below 0.01, `*` below 0.05, as in the paper's tables."""
        return "**" if self.p_value < 0.01 else "*" if self.p_value < 0.05 else ""


def aligned_friedman(*models: Sequence[float]) -> RankTest:
    """The Friedman test with aligned ranks (Hodges and Lehmann, 1962) between models on paired runs.

    From each run's values their mean over the models is taken away; then all n runs x k models are ranked together.
    With R_j the sum of a model's ranks and B_i that of a run's,

        T = (k - 1) (sum_j R_j^2 - k n^2 (kn + 1)^2 / 4) / (kn (kn + 1) (2kn + 1) / 6 - sum_i B_i^2 / k)

    is compared with a chi-squared distribution of k - 1 degrees of freedom. Ties share their mean rank.

    Parameters
    ----------
    *models : sequences of float, at least two, equally long
        What each model reached, run by run in the same order.

    Examples
    --------
    >>> test = aligned_friedman([0.86, 0.85, 0.87, 0.88], [0.80, 0.82, 0.81, 0.83])
    >>> round(test.statistic, 2), test.stars
    (3.05, '')
    """
    from scipy import stats

    if len(models) < 2 or len({len(values) for values in models}) > 1 or len(models[0]) < 2:
        raise InvalidInput("a rank test must have two models or more with at least two paired runs each.")
    values = np.array(models, dtype=np.float64).T  # (runs, models)
    n, k = values.shape
    ranks = stats.rankdata(_aligned(values)).reshape(n, k)
    of_models, of_runs = ranks.sum(axis=0), ranks.sum(axis=1)
    above = (k - 1) * ((of_models**2).sum() - k * n**2 / 4 * (k * n + 1) ** 2)
    below = k * n * (k * n + 1) * (2 * k * n + 1) / 6 - (of_runs**2).sum() / k
    statistic = float(above / below)
    return RankTest(statistic, float(stats.chi2.sf(statistic, k - 1)), tuple((of_models / n).tolist()))


def _aligned(values: np.ndarray) -> np.ndarray:
    """Values less their run's mean, with what is equal but for rounding made equal, so that ties are ties."""
    return np.round(values - values.mean(axis=1, keepdims=True), 12)
