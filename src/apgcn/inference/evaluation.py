"""Accuracy and calibration of predictions on held-out nodes, and temperature scaling."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from apgcn._utils.roc_auc import roc_auc
from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.inference.predictions import Predictions

NUM_BINS = 10
MAX_LOG_TEMPERATURE = 4.0
LOG_TEMPERATURE_STD = 0.5  # of the prior: with few nodes the temperature stays near 1


class ReliabilityBin(NamedTuple):
    """Nodes of about the same confidence: their number, mean confidence and accuracy."""

    nodes: int
    confidence: float
    accuracy: float


def evaluate_split(predictions: Predictions, graph: Graph, split: Split) -> dict[str, Any]:
    """`evaluate` for the stopping set, which chose the epoch, the validation set, which may choose the model, and the
    test set, which had no influence.
    """
    sets = {name: getattr(split, name) for name in ("stopping", "validation", "test")}
    return {name: evaluate(predictions.probabilities[nodes], graph.labels[nodes]) for name, nodes in sets.items()}


def evaluate(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Number of nodes, accuracy, calibration error and reliability bins as JSON values; None without nodes.

    For two classes also the area under the ROC curve; None if the nodes are of one class.

    Parameters
    ----------
    probabilities : array of shape (nodes, classes)
    labels : array of shape (nodes,)
    """
    has_nodes = len(labels) > 0
    both_classes = probabilities.shape[1] == 2 and len(np.unique(labels)) == 2
    return {
        "nodes": len(labels),
        "roc_auc": roc_auc(probabilities[:, 1], labels) if both_classes else None,
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()) if has_nodes else None,
        "calibration_error": expected_calibration_error(probabilities, labels) if has_nodes else None,
        "reliability": [row._asdict() for row in reliability_bins(probabilities, labels)] if has_nodes else [],
    }


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The divisor of the logits that maximises the likelihood of held-out labels (Guo et al., 2017).

    Its logarithm has a normal prior: without one, a few nodes that are all predicted correctly would give 0.

    Parameters
    ----------
    logits : array of shape (ensemble members, nodes, classes)
        Their softmax is averaged over the ensemble.
    labels : array of shape (nodes,)
    """

    def negative_log_posterior(log_temperature: float) -> float:
        probabilities = softmax(logits / np.exp(log_temperature), axis=-1).mean(axis=0)
        negative_log_likelihood = -np.log(probabilities[np.arange(len(labels)), labels] + 1e-12).sum()
        return float(negative_log_likelihood + 0.5 * (log_temperature / LOG_TEMPERATURE_STD) ** 2)

    bounds = (-MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE)
    return float(np.exp(minimize_scalar(negative_log_posterior, bounds=bounds, method="bounded").x))


def reliability_bins(
    probabilities: np.ndarray, labels: np.ndarray, *, num_bins: int = NUM_BINS
) -> list[ReliabilityBin]:
    """Confidence and accuracy in equally wide bins of confidence from 0 to 1; empty bins are left out.

    Parameters
    ----------
    probabilities : array of shape (nodes, classes)
    labels : array of shape (nodes,)
    """
    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bin_of_node = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    bins = []
    for number in np.unique(bin_of_node):
        members = bin_of_node == number
        bins.append(
            ReliabilityBin(int(members.sum()), float(confidence[members].mean()), float(correct[members].mean()))
        )
    return bins


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, *, num_bins: int = NUM_BINS) -> float:
    """Mean over nodes of |confidence - accuracy| of their bin (Guo et al., 2017); NaN without nodes.

    Examples
    --------
    >>> probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    >>> round(expected_calibration_error(probabilities, np.array([0, 1, 1, 1])), 3)
    0.325
    """
    if not len(labels):
        return float("nan")
    bins = reliability_bins(probabilities, labels, num_bins=num_bins)
    return float(sum(row.nodes * abs(row.confidence - row.accuracy) for row in bins) / len(labels))
