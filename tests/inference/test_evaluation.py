"""Temperature scaling, calibration error and reliability bins."""

import numpy as np
import pytest
from scipy.special import softmax

from apgcn.inference.evaluation import evaluate, expected_calibration_error, fit_temperature, reliability_bins


def test_fitted_temperature_is_the_one_that_scaled_the_logits():
    """Labels are drawn from known probabilities."""
    random = np.random.default_rng(0)
    logits = random.standard_normal((1, 20_000, 3)) * 2
    probabilities = softmax(logits[0], axis=-1)
    labels = (probabilities.cumsum(axis=1) > random.random((20_000, 1))).argmax(axis=1)
    assert fit_temperature(logits * 3, labels) == pytest.approx(3, rel=0.05)
    assert expected_calibration_error(probabilities, labels) < 0.01
    overconfident = softmax(3 * logits[0], axis=-1)
    assert expected_calibration_error(overconfident, labels) > 0.1
    assert sum(row.nodes for row in reliability_bins(overconfident, labels)) == 20_000


def test_few_correct_nodes_do_not_make_the_model_overconfident():
    logits = np.log(np.array([[[0.9, 0.1]] * 4]))
    temperature = fit_temperature(logits, np.zeros(4, int))
    assert 0.5 < temperature < 1
    assert fit_temperature(np.repeat(logits, 500, axis=1), np.zeros(2000, int)) < 0.3


def test_evaluation_without_nodes_has_no_numbers():
    assert evaluate(np.zeros((0, 2)), np.zeros(0, int)) == {
        "nodes": 0,
        "roc_auc": None,
        "accuracy": None,
        "calibration_error": None,
        "reliability": [],
    }
