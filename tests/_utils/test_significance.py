"""The aligned Friedman test, against a hand-worked example, two libraries and its limits."""

import numpy as np
import pytest
from scipy import stats

from apgcn._utils.significance import RankTest, aligned_friedman
from apgcn.errors import InvalidInput


def test_an_example_worked_by_hand():
    """Differences 2, 4, -6 between two models on three runs.

    Aligned: +1 -1, +2 -2, -3 +3; ranks of the first model 4, 5, 1, of the second 3, 2, 6; run sums 7, 7, 7.
    above = 100 + 121 - 2 * 9 / 4 * 49 = 0.5; below = 6 * 7 * 13 / 6 - 147 / 2 = 17.5.
    """
    test = aligned_friedman([5, 8, 1], [3, 4, 7])
    assert test.mean_ranks == pytest.approx((10 / 3, 11 / 3))
    assert test.statistic == pytest.approx(0.5 / 17.5)
    assert test.p_value == pytest.approx(stats.chi2.sf(0.5 / 17.5, 1))


@pytest.mark.parametrize("models", [2, 3, 5])
def test_it_agrees_with_statds(models):
    pandas = pytest.importorskip("pandas")
    no_parametrics = pytest.importorskip("statds.no_parametrics")
    values = np.random.default_rng(models).integers(70, 90, size=(30, models)) / 4
    table = pandas.DataFrame(values, columns=[f"model {number}" for number in range(models)])
    table.insert(0, "run", range(30))
    _, statistic, p_value, *_ = no_parametrics.friedman_aligned_ranks(table)
    test = aligned_friedman(*values.T)
    assert test.statistic == pytest.approx(statistic, abs=1e-6)
    assert test.p_value == pytest.approx(p_value, abs=1e-4)


def test_between_two_models_it_decides_as_wilcoxons_signed_ranks_do():
    """Aligned values of two models are half their differences, so both tests rank the same things."""
    random = np.random.default_rng(0)
    for shift in (0.0, 0.1, 0.3, 0.6, 1.0):
        first, second = random.normal(shift, 1, 100), random.normal(0, 1, 100)
        ours = aligned_friedman(first, second).p_value
        theirs = stats.wilcoxon(first, second, correction=False, method="asymptotic").pvalue
        assert ours == pytest.approx(theirs, abs=0.03)


def test_equal_models_do_not_differ():
    test = aligned_friedman([0.8, 0.9, 0.7], [0.8, 0.9, 0.7])
    assert test == RankTest(0.0, 1.0, (3.5, 3.5))
    assert test.stars == ""


def test_what_only_a_run_does_to_all_models_does_not_count():
    random = np.random.default_rng(1)
    first, second, luck = random.normal(0.5, 1, 50), random.normal(0, 1, 50), random.normal(0, 10, 50)
    plain = aligned_friedman(first, second)
    shifted = aligned_friedman(first + luck, second + luck)
    assert shifted.statistic == pytest.approx(plain.statistic)


def test_stars_stand_for_the_papers_cutoffs():
    assert [RankTest(0, p, ()).stars for p in (0.009, 0.01, 0.049, 0.05)] == ["**", "*", "*", ""]


@pytest.mark.parametrize("models", [(), ([1, 2],), ([1, 2], [1]), ([1], [2])])
def test_what_is_not_paired_is_refused(models):
    with pytest.raises(InvalidInput, match="two models or more"):
        aligned_friedman(*models)
