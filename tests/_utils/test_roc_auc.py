"""ROC AUC against its definition and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgcn._utils.roc_auc import roc_auc

LABELLED_SCORES = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 1)), min_size=2, max_size=40)


@given(LABELLED_SCORES)
def test_it_is_the_fraction_of_pairs_in_the_right_order(pairs):
    scores, labels = (np.array(values) for values in zip(*pairs, strict=True))
    positive, negative = scores[labels == 1], scores[labels == 0]
    if not len(positive) or not len(negative):
        assert math.isnan(roc_auc(scores, labels))
        return
    differences = positive[:, None] - negative
    assert roc_auc(scores, labels) == pytest.approx(((differences > 0) + 0.5 * (differences == 0)).mean())


@pytest.mark.parametrize("decimals", [1, 8])
def test_it_agrees_with_scikit_learn_with_and_without_ties(decimals):
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    labels = random.integers(2, size=3000)
    scores = (random.standard_normal(3000) + 0.3 * labels).round(decimals)
    assert roc_auc(scores, labels) == pytest.approx(metrics.roc_auc_score(labels, scores), abs=1e-12)


def test_an_increasing_function_of_the_scores_changes_nothing():
    scores, labels = np.array([-2.0, 0.5, 0.5, 3.0, 1.0]), np.array([0, 1, 0, 1, 0])
    assert roc_auc(scores, labels) == roc_auc(1 / (1 + np.exp(-scores)), labels)
    assert roc_auc(-scores, labels) == pytest.approx(1 - roc_auc(scores, labels))
