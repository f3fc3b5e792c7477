"""When a model says 80 %, is it right in 80 of 100 cases?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

BINS = 10
HOTTEST = 4.0  # is the logarithm of the temperature at most
USUAL = 0.5  # spread of that logarithm among models: what few nodes cannot tell, this does


class Bin(NamedTuple):
    """Nodes of which the model was about equally certain."""

    nodes: int
    confidence: float
    accuracy: float


def temperature_for(logits: np.ndarray, labels: np.ndarray) -> float:
    """What to divide logits by so that the probabilities of held-out nodes are as likely as can be (Guo et al., 2017).

    With a normal prior on its logarithm: else a few nodes that are all right would ask for a temperature of 0.

    Parameters
    ----------
    logits : array of shape (initialisations, nodes, classes)
        Their softmax is averaged over the initialisations.
    labels : array of shape (nodes,)
    """

    def surprise(log_temperature: float) -> float:
        said = softmax(logits / np.exp(log_temperature), axis=-1).mean(axis=0)
        told = -np.log(said[np.arange(len(labels)), labels] + 1e-12).sum()
        return float(told + 0.5 * (log_temperature / USUAL) ** 2)

    found = minimize_scalar(surprise, bounds=(-HOTTEST, HOTTEST), method="bounded")
    return float(np.exp(found.x))


def reliability(probabilities: np.ndarray, labels: np.ndarray, *, bins: int = BINS) -> list[Bin]:
    """The nodes by how certain the model is of them, equally wide bins from 0 to 1, those without nodes left out.

    Parameters
    ----------
    probabilities : array of shape (nodes, classes)
    labels : array of shape (nodes,)
    """
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return [
        Bin(int((place == one).sum()), float(confidence[place == one].mean()), float(right[place == one].mean()))
        for one in np.unique(place)
    ]


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, *, bins: int = BINS) -> float:
    """How far certainty and accuracy lie apart in a bin, averaged over nodes (Guo et al., 2017); NaN for no nodes.

    Examples
    --------
    >>> sure = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    >>> round(expected_calibration_error(sure, np.array([0, 1, 1, 1])), 3)
    0.325
    """
    if not len(labels):
        return float("nan")
    parts = reliability(probabilities, labels, bins=bins)
    return float(sum(part.nodes * abs(part.confidence - part.accuracy) for part in parts) / len(labels))
