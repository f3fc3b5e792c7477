import numpy as np
import pytest
from scipy import stats

from apgcn.statistics import bootstrap_half_width


def test_the_interval_agrees_with_scipy():
    values = np.random.default_rng(3).gamma(2.0, size=60)  # skewed, so that the two sides differ
    ours = bootstrap_half_width(values, resamples=20_000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1))
    low, high = theirs.confidence_interval
    assert ours == pytest.approx(max(high - values.mean(), values.mean() - low), rel=0.03)


def test_another_level_gives_another_width():
    values = np.random.default_rng(3).normal(size=100)
    assert bootstrap_half_width(values, level=0.5) < bootstrap_half_width(values, level=0.9) / 2


def test_the_same_values_give_the_same_interval():
    assert bootstrap_half_width([1.0, 2.0, 4.0]) == bootstrap_half_width([1.0, 2.0, 4.0])


def test_one_value_has_no_interval():
    assert bootstrap_half_width([0.8]) is None
