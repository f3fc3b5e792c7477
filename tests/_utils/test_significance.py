"""Bootstrap intervals against scipy and limits; the aligned Friedman test against hand-worked values and libraries."""

import numpy as np
import pytest
from scipy import stats

from apgcn._utils.significance import (
    FriedmanResult,
    aligned_friedman,
    bootstrap_half_width,
    cluster_bootstrap_half_width,
    holm,
)
from apgcn.errors import InvalidInput


def test_the_bootstrap_interval_agrees_with_scipy():
    values = np.random.default_rng(3).gamma(2.0, size=60)  # skewed, so that the two sides differ
    actual = bootstrap_half_width(values, resamples=20_000)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    )
    low, high = expected.confidence_interval
    assert actual == pytest.approx(max(high - values.mean(), values.mean() - low), rel=0.03)


def test_a_lower_level_gives_a_narrower_interval():
    values = np.random.default_rng(3).normal(size=100)
    assert bootstrap_half_width(values, level=0.5) < bootstrap_half_width(values, level=0.9) / 2


def test_the_same_values_give_the_same_interval():
    assert bootstrap_half_width([1.0, 2.0, 4.0]) == bootstrap_half_width([1.0, 2.0, 4.0])


def test_one_value_has_no_interval():
    assert bootstrap_half_width([0.8]) is None


def test_runs_that_agree_within_splits_count_as_one_per_split():
    """Five equal runs on a split are one value: the width is that of 20 values, not of 100."""
    by_split = np.random.default_rng(5).normal(size=20)
    values, splits = np.repeat(by_split, 5), np.repeat(np.arange(20), 5)
    assert cluster_bootstrap_half_width(values, splits) == pytest.approx(bootstrap_half_width(by_split))
    assert cluster_bootstrap_half_width(values, splits) > 1.8 * bootstrap_half_width(values)


def test_without_an_effect_of_splits_both_intervals_agree():
    values = np.random.default_rng(6).normal(size=2000)
    splits = np.arange(2000) % 400
    assert cluster_bootstrap_half_width(values, splits) == pytest.approx(bootstrap_half_width(values), rel=0.1)


def test_splits_with_unequal_numbers_of_runs_agree_with_scipys_bootstrap_of_a_ratio():
    random = np.random.default_rng(7)
    counts = random.integers(1, 6, size=30)
    splits = np.repeat(np.arange(30), counts)
    values = random.normal(size=30)[splits] + random.normal(scale=0.1, size=counts.sum())
    totals = np.bincount(splits, weights=values)
    expected = stats.bootstrap(
        (totals, counts),
        lambda top, bottom, axis: top.sum(axis=axis) / bottom.sum(axis=axis),
        paired=True,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(1),
    )
    low, high = expected.confidence_interval
    actual = cluster_bootstrap_half_width(values, splits.tolist(), resamples=20_000)
    assert actual == pytest.approx(max(high - values.mean(), values.mean() - low), rel=0.03)


def test_one_split_has_no_cluster_interval():
    assert cluster_bootstrap_half_width([0.8, 0.9], [7, 7]) is None


def test_aligned_friedman_of_an_example_worked_by_hand():
    """Differences 2, 4, -6 between two models on three runs.

    Aligned: +1 -1, +2 -2, -3 +3; ranks of the first model 4, 5, 1, of the second 3, 2, 6; run sums 7, 7, 7.
    numerator = 100 + 121 - 2 * 9 / 4 * 49 = 0.5; denominator = 6 * 7 * 13 / 6 - 147 / 2 = 17.5.
    """
    test = aligned_friedman([5, 8, 1], [3, 4, 7])
    assert test.mean_ranks == pytest.approx((10 / 3, 11 / 3))
    assert test.statistic == pytest.approx(0.5 / 17.5)
    assert test.p_value == pytest.approx(stats.chi2.sf(0.5 / 17.5, 1))


@pytest.mark.parametrize("models", [2, 3, 5])
def test_aligned_friedman_agrees_with_statds(models):
    pandas = pytest.importorskip("pandas")
    no_parametrics = pytest.importorskip("statds.no_parametrics")
    values = np.random.default_rng(models).integers(70, 90, size=(30, models)) / 4
    table = pandas.DataFrame(values, columns=[f"model {number}" for number in range(models)])
    table.insert(0, "run", range(30))
    _, statistic, p_value, *_ = no_parametrics.friedman_aligned_ranks(table)
    test = aligned_friedman(*values.T)
    assert test.statistic == pytest.approx(statistic, abs=1e-6)
    assert test.p_value == pytest.approx(p_value, abs=1e-4)


def test_for_two_models_it_agrees_with_wilcoxons_signed_rank_test():
    """Aligned values of two models are half their differences, so both tests rank the same values."""
    random = np.random.default_rng(0)
    for shift in (0.0, 0.1, 0.3, 0.6, 1.0):
        first, second = random.normal(shift, 1, 100), random.normal(0, 1, 100)
        actual = aligned_friedman(first, second).p_value
        expected = stats.wilcoxon(first, second, correction=False, method="asymptotic").pvalue
        assert actual == pytest.approx(expected, abs=0.03)


def test_equal_models_do_not_differ():
    test = aligned_friedman([0.8, 0.9, 0.7], [0.8, 0.9, 0.7])
    assert test == FriedmanResult(0.0, 1.0, (3.5, 3.5))
    assert test.stars == ""


def test_an_effect_of_the_run_on_all_models_does_not_count():
    random = np.random.default_rng(1)
    first, second, run_effect = random.normal(0.5, 1, 50), random.normal(0, 1, 50), random.normal(0, 10, 50)
    unshifted = aligned_friedman(first, second)
    shifted = aligned_friedman(first + run_effect, second + run_effect)
    assert shifted.statistic == pytest.approx(unshifted.statistic)


def test_stars_follow_the_papers_significance_levels():
    assert [FriedmanResult(0, p, ()).stars for p in (0.009, 0.01, 0.049, 0.05)] == ["**", "*", "*", ""]


def test_holms_correction_of_an_example_worked_by_hand():
    """0.005 * 4, 0.01 * 3 and 0.03 * 2 in ascending order; 0.04 * 1 is raised to the value before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert (holm([0.03]), holm([])) == ([0.03], [])


@pytest.mark.parametrize("models", [(), ([1, 2],), ([1, 2], [1]), ([1], [2])])
def test_unpaired_values_are_refused(models):
    with pytest.raises(InvalidInput, match="two models or more"):
        aligned_friedman(*models)
