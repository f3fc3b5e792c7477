"""Known labels as evidence for other nodes: Correct and Smooth, and cross-fitting.

A model that uses the labels of a graph at prediction time (label propagation, or any model with Correct and Smooth)
must not predict a node from that node's own label. `cross_fit` keeps to it: the labelled nodes are divided into folds,
and the nodes of a fold are predicted from the labels of the other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from apgcn._utils.validation import check_fraction, check_int
from apgcn.nn.operators import PageRank
from apgcn.nn.propagation import propagate
from apgcn.ops.device_graph import Adjacency

NUM_FOLDS = 5
MAX_SCALE = 1000.0  # of a propagated residual: beyond it, as in the authors' program, the residual is used unscaled


@dataclass(frozen=True)
class CorrectAndSmooth:
    """Correct and Smooth: Huang et al., Combining Label Propagation and Simple Models, ICLR 2021.

        E^0 = Y - P at labelled nodes, 0 elsewhere
        E^k = correction * A E^(k-1) + (1 - correction) E^0
        P'  = P + E^T, each row of E^T scaled to the mean length of a labelled node's residual ("autoscale")
        G^0 = Y at labelled nodes, P' elsewhere
        G^k = smoothing * A G^(k-1) + (1 - smoothing) G^0

    P are the probabilities of a model, Y the known labels. The result is G^T, made a distribution. A is the normalised
    adjacency with self-loops; in the paper it has none.

    Parameters
    ----------
    correction, smoothing : float
        The paper's alpha_1 and alpha_2: how far residuals and labels reach.
    steps : int
        T.
    """

    correction: float = 0.8
    smoothing: float = 0.8
    steps: int = 50

    def __post_init__(self) -> None:
        check_fraction("correction", self.correction)
        check_fraction("smoothing", self.smoothing)
        check_int("steps", self.steps)

    def apply(self, probabilities: Tensor, labels: Tensor, known: Tensor, adjacency: Adjacency) -> Tensor:
        """The corrected and smoothed probabilities (nodes, classes), from the labels (nodes,) of `known` nodes (m,)."""
        one_hot = functional.one_hot(labels[known], probabilities.shape[1]).to(probabilities)
        residual = one_hot - probabilities[known]
        error = self._propagate(
            torch.zeros_like(probabilities).index_copy(0, known, residual), adjacency, self.correction
        )
        scale = residual.abs().sum(1).mean() / error.abs().sum(1, keepdim=True)
        corrected = probabilities + error * torch.where(scale <= MAX_SCALE, scale, 1.0)
        smoothed = self._propagate(corrected.index_copy(0, known, one_hot), adjacency, self.smoothing).clamp(min=0)
        total = smoothed.sum(1, keepdim=True)
        return torch.where(total > 0, smoothed / total, probabilities)

    def _propagate(self, z0: Tensor, adjacency: Adjacency, alpha: float) -> Tensor:
        z = z0[None]
        for state in propagate(PageRank(1 - alpha, edge_dropout=0.0), z, adjacency, steps=self.steps, rng=None):
            z = state  # only the last is kept
        return z[0]


def cross_fit(
    predict: Callable[[np.ndarray], np.ndarray], known: np.ndarray, nodes: np.ndarray, *, ids: Sequence[str]
) -> np.ndarray:
    """Predictions of some nodes from known labels, of no node from its own.

    Parameters
    ----------
    predict : function
        `predict(known)` returns a row for every node of the graph, from the labels of these nodes.
    known : array of shape (labelled nodes,)
    nodes : array of shape (m,)
        The nodes to predict, labelled or not.
    ids : sequence of str
        The ids of all nodes, from which the folds follow: in another order of the nodes they are the same.

    Returns
    -------
    array of shape (m, ...)
    """
    fold_of_node = {node: crc32(ids[node].encode()) % NUM_FOLDS for node in known.tolist()}
    folds = np.array([fold_of_node.get(node, -1) for node in nodes.tolist()], dtype=np.int64)
    fold_of_known = np.array([fold_of_node[node] for node in known.tolist()], dtype=np.int64)
    result: np.ndarray | None = None
    for fold in np.unique(folds):
        rows = predict(known[fold_of_known != fold])
        if result is None:
            result = np.empty((len(nodes), *rows.shape[1:]), rows.dtype)
        result[folds == fold] = rows[nodes[folds == fold]]
    return predict(known)[nodes] if result is None else result
