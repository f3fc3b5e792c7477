"""Area under the ROC curve, for graphs of two classes."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata


def roc_auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The probability that a node of class 1 has a higher score than one of class 0; equal scores count half.

    It is the Mann-Whitney statistic: from ranks, exact with ties. NaN if one of the classes has no node.

    Parameters
    ----------
    scores : array of shape (nodes,)
        Higher for class 1: its probability, or any increasing function of it.
    labels : array of shape (nodes,)
        0 or 1.

    Examples
    --------
    >>> roc_auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    0.75
    """
    positive = int((labels == 1).sum())
    negative = len(labels) - positive
    if not positive or not negative:
        return float("nan")
    rank_sum = rankdata(scores)[labels == 1].sum()
    return float((rank_sum - positive * (positive + 1) / 2) / (positive * negative))
