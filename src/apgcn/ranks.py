"""Do models differ, when they were trained on the same runs?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from apgcn.errors import InvalidInput


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
