import numpy as np
import pytest
from scipy import stats

from apgcn._utils.significance import bootstrap_half_width, split_half_width


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


def test_where_splits_make_all_the_difference_only_their_number_counts():
    """Five runs on a split that agree are one value: the width is that of 20 values, not of 100."""
    by_split = np.random.default_rng(5).normal(size=20)
    values, splits = np.repeat(by_split, 5), np.repeat(np.arange(20), 5)
    assert split_half_width(values, splits) == pytest.approx(bootstrap_half_width(by_split))
    assert split_half_width(values, splits) > 1.8 * bootstrap_half_width(values)


def test_where_splits_make_no_difference_both_intervals_agree():
    values = np.random.default_rng(6).normal(size=2000)
    splits = np.arange(2000) % 400
    assert split_half_width(values, splits) == pytest.approx(bootstrap_half_width(values), rel=0.1)


def test_splits_with_unequal_numbers_of_runs_agree_with_scipys_bootstrap_of_a_ratio():
    random = np.random.default_rng(7)
    counts = random.integers(1, 6, size=30)
    splits = np.repeat(np.arange(30), counts)
    values = random.normal(size=30)[splits] + random.normal(scale=0.1, size=counts.sum())
    sums = np.bincount(splits, weights=values)
    theirs = stats.bootstrap(
        (sums, counts),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(1),
    )
    low, high = theirs.confidence_interval
    ours = split_half_width(values, splits.tolist(), resamples=20_000)
    assert ours == pytest.approx(max(high - values.mean(), values.mean() - low), rel=0.03)


def test_one_split_has_no_interval_of_splits():
    assert split_half_width([0.8, 0.9], [7, 7]) is None
