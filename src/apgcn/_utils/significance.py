"""Uncertainty of means over runs: bootstrap confidence intervals, the aligned Friedman test and Holm's correction."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from apgcn.errors import InvalidInput

RESAMPLES = 1000


def bootstrap_half_width(
    values: Sequence[float] | np.ndarray, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> float | None:
    """Half-width of a bootstrap confidence interval for the mean: its larger side, as the paper reports it.

    The runs are resampled as if they were independent. None for a single value, which has no spread.

    Examples
    --------
    >>> bootstrap_half_width([0.5, 0.5, 0.5])
    0.0
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return None
    resampled = np.random.default_rng(seed).integers(len(sample), size=(resamples, len(sample)))
    return _larger_side(sample[resampled].mean(axis=1), sample.mean(), level=level)


def cluster_bootstrap_half_width(
    values: Sequence[float] | np.ndarray,
    splits: Sequence[Hashable],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float | None:
    """Half-width of a cluster bootstrap interval for the mean, with splits as clusters.

    As `bootstrap_half_width`, but splits are resampled with all their runs: runs on the same split are correlated.

    Parameters
    ----------
    values : sequence of float
        One per run.
    splits : sequence
        The split that each run was trained on.

    Returns
    -------
    float, or None if there is only one split.

    Examples
    --------
    Two splits with equal runs within each: as wide as for two runs.

    >>> cluster_bootstrap_half_width([0.8, 0.8, 0.9, 0.9], ["a", "a", "b", "b"]) == bootstrap_half_width([0.8, 0.9])
    True
    """
    sample = np.asarray(values, dtype=np.float64)
    position = {split: index for index, split in enumerate(dict.fromkeys(splits))}
    if len(position) < 2:
        return None
    cluster = np.array([position[split] for split in splits])
    totals, counts = np.bincount(cluster, weights=sample), np.bincount(cluster)
    resampled = np.random.default_rng(seed).integers(len(position), size=(resamples, len(position)))
    means = totals[resampled].sum(axis=1) / counts[resampled].sum(axis=1)
    return _larger_side(means, sample.mean(), level=level)


def _larger_side(means: np.ndarray, centre: float, *, level: float) -> float:
    """Distance from the centre to the farther end of the percentile interval of resampled means."""
    tail = 50 * (1 - level)
    low, high = np.percentile(means, [tail, 100 - tail])
    return float(max(high - centre, centre - low))


class FriedmanResult(NamedTuple):
    """Result of an aligned Friedman test.

    `mean_ranks` has one value per model; larger measurements get higher ranks.
    """

    statistic: float
    p_value: float
    mean_ranks: tuple[float, ...]

    @property
    def stars(self) -> str:
        """The stars of the p-value."""
        return stars_of(self.p_value)


def stars_of(p_value: float) -> str:
    """`**` below 0.01, `*` below 0.05, as in the paper's tables."""
    return "**" if p_value < 0.01 else "*" if p_value < 0.05 else ""


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number (Holm, 1979), in the same order.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(np.argsort(p_values, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def aligned_friedman(*models: Sequence[float]) -> FriedmanResult:
    """Friedman test with aligned ranks (Hodges and Lehmann, 1962) between models on paired runs.

    Each run's mean over the models is subtracted from its values; then all n runs x k models are ranked together.
    With R_j the sum of a model's ranks and B_i that of a run's,

        T = (k - 1) (sum_j R_j^2 - k n^2 (kn + 1)^2 / 4) / (kn (kn + 1) (2kn + 1) / 6 - sum_i B_i^2 / k)

    is compared with a chi-squared distribution of k - 1 degrees of freedom. Ties share their mean rank.

    Parameters
    ----------
    *models : sequences of float, at least two, equally long
        The measurements of each model, for the same runs in the same order.

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
    aligned_ranks = stats.rankdata(_align(values)).reshape(n, k)
    model_sums, run_sums = aligned_ranks.sum(axis=0), aligned_ranks.sum(axis=1)
    numerator = (k - 1) * ((model_sums**2).sum() - k * n**2 / 4 * (k * n + 1) ** 2)
    denominator = k * n * (k * n + 1) * (2 * k * n + 1) / 6 - (run_sums**2).sum() / k
    statistic = float(numerator / denominator)
    return FriedmanResult(statistic, float(stats.chi2.sf(statistic, k - 1)), tuple((model_sums / n).tolist()))


def _align(values: np.ndarray) -> np.ndarray:
    """Values minus their run's mean, rounded so that ties stay ties."""
    return np.round(values - values.mean(axis=1, keepdims=True), 12)
