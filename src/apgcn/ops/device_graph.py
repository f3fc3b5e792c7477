"""What does training need of a graph, on a device?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from apgcn.data.graph import Graph
from apgcn.ops.sparse import CSRStructure, SparseMatrix


class Adjacency:
    """Who hears whom, every node itself included: A + I, where a self-loop in A counts as the one in I.

    Attributes
    ----------
    pattern : Pattern
        Row i lists the nodes that i hears.
    weights : Tensor of shape (entries,)
        The weight of each edge, 1 for a node's own entry.
    loops : Tensor of shape (entries,)
        1 at each node's own entry, 0 elsewhere.
    exchange : Exchange or None
        Where not all rows are here: how those of other processes come, see `distributed`.
    """

    exchange: Any = None

    def __init__(self, adjacency: sparse.csr_matrix, *, device: torch.device | str, dtype: torch.dtype):
        heard = adjacency_with_self_loops(adjacency)
        self.structure = CSRStructure(heard, device=device)
        self.weights = torch.as_tensor(heard.data, device=device, dtype=dtype)
        self.loops = (self.structure.rows == self.structure.columns).to(dtype)

    @property
    def nodes(self) -> int:
        return self.structure.shape[0]

    @cached_property
    def normalized(self) -> SparseMatrix:
        """D^-1/2 (A + I) D^-1/2 of the whole graph, with D the row sums of A + I."""
        return self.normalize([self.weights])[0]

    @cached_property
    def normalized_without_self_loops(self) -> SparseMatrix:
        """D^-1/2 A D^-1/2, with D the row sums of A, or 1 for who hears nobody but may be heard (directed edges)."""
        weights = self.weights * (1 - self.loops)
        sums = SparseMatrix(self.structure, weights).row_sums()
        return self.scaled([weights], [sums.masked_fill(sums == 0, 1).rsqrt()])[0]

    def normalize(self, weights: Sequence[Tensor]) -> list[SparseMatrix]:
        """D^-1/2 W D^-1/2 of several sets of weights, with D the row sums of each W, which must be positive."""
        return self.scaled(weights, [SparseMatrix(self.structure, one).row_sums().rsqrt() for one in weights])

    def scaled(self, weights: Sequence[Tensor], scales: Sequence[Tensor]) -> list[SparseMatrix]:
        """Several sets of weights, rows and columns of each times a number of every node."""
        matrices = []
        for values, scale in zip(weights, scales, strict=True):
            to_row, to_column = (scale.index_select(-1, end) for end in (self.structure.rows, self.structure.columns))
            matrices.append(SparseMatrix(self.structure, values * to_row * to_column))
        return matrices


def adjacency_with_self_loops(adjacency: sparse.csr_matrix) -> sparse.csr_matrix:
    """Row i lists whom i hears: an edge from i to j is heard by j, and everybody hears itself, with weight 1."""
    heard = adjacency.T.tocsr()
    heard = (heard - sparse.diags(heard.diagonal()) + sparse.eye(heard.shape[0])).tocsr()
    heard.sort_indices()
    return heard


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A graph on a device.

    Attributes
    ----------
    features : SparseMatrix or Tensor of shape (nodes, features)
    adjacency : Adjacency
    labels : Tensor of shape (nodes,)
    classes : int
    """

    features: SparseMatrix | Tensor
    adjacency: Adjacency
    labels: Tensor
    classes: int

    @classmethod
    def of(cls, graph: Graph, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> DeviceGraph:
        """Lay a graph on a device."""
        return cls(
            features=features_to_device(graph.features, device=device, dtype=dtype),
            adjacency=Adjacency(graph.adjacency, device=device, dtype=dtype),
            labels=torch.as_tensor(graph.labels.copy(), device=device),
            classes=graph.num_classes,
        )

    @property
    def num_features(self) -> int:
        return (self.features.structure if isinstance(self.features, SparseMatrix) else self.features).shape[1]


def features_to_device(
    features: sparse.csr_matrix | np.ndarray, *, device: torch.device | str, dtype: torch.dtype = torch.float32
) -> SparseMatrix | Tensor:
    """Features on a device, sparse or dense as they are."""
    if isinstance(features, np.ndarray):
        return torch.as_tensor(features.copy(), device=device, dtype=dtype)
    values = torch.as_tensor(features.data.copy(), device=device, dtype=dtype)
    return SparseMatrix(CSRStructure(features, device=device), values)
