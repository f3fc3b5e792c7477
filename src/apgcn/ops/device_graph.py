"""A graph as tensors on a device: features, adjacency and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from apgcn.data.graph import Graph
from apgcn.ops.binary import BinaryForm
from apgcn.ops.sparse import CSRStructure, SparseMatrix


class Adjacency:
    """The adjacency matrix with self-loops, A + I; a self-loop in A is replaced by that of I.

    Parameters
    ----------
    adjacency : scipy.sparse.csr_matrix
        Entry (i, j) is the weight of the edge from i to j.
    device : torch.device or str
    dtype : torch.dtype

    Attributes
    ----------
    structure : CSRStructure
        Row i lists the in-neighbours of node i, and i itself.
    weights : Tensor of shape (nnz,)
        The weight of each edge, 1 for a self-loop.
    self_loops : Tensor of shape (nnz,)
        1 for a self-loop, 0 elsewhere.
    unit_weights : bool
        Whether all weights are known to be 1.
    halo : HaloExchange or None
        In distributed training: how the rows of halo nodes arrive from other processes, see `distributed`.
    """

    unit_weights: bool = False
    halo: Any = None

    def __init__(self, adjacency: sparse.csr_matrix, *, device: torch.device | str, dtype: torch.dtype):
        matrix = adjacency_with_self_loops(adjacency)
        self.structure = CSRStructure(matrix, device=device)
        self.weights = torch.as_tensor(matrix.data, device=device, dtype=dtype)
        self.unit_weights = bool((matrix.data == 1).all())
        self.self_loops = (self.structure.row == self.structure.col).to(dtype)

    @property
    def num_nodes(self) -> int:
        return self.structure.shape[0]

    @cached_property
    def normalized(self) -> SparseMatrix:
        """D^-1/2 (A + I) D^-1/2 of the full graph, with D the row sums of A + I."""
        return self.normalize([self.weights])[0]

    @cached_property
    def normalized_without_self_loops(self) -> SparseMatrix:
        """D^-1/2 A D^-1/2, with D the row sums of A, or 1 for a node without in-neighbours.

        Such a node may still be the in-neighbour of others, where edges are directed.
        """
        weights = self.weights * (1 - self.self_loops)
        degree = SparseMatrix(self.structure, weights).row_sums()
        return self.scale_symmetric([weights], [degree.masked_fill(degree == 0, 1).rsqrt()])[0]

    def normalize(self, weights: Sequence[Tensor]) -> list[SparseMatrix]:
        """Return D^-1/2 W D^-1/2 for several sets of edge weights W.

        D holds the row sums of each W, which must be positive.
        """
        deg_inv_sqrt = [SparseMatrix(self.structure, values).row_sums().rsqrt() for values in weights]
        return self.scale_symmetric(weights, deg_inv_sqrt)

    def scale_symmetric(self, weights: Sequence[Tensor], scales: Sequence[Tensor]) -> list[SparseMatrix]:
        """Return S W S for several sets of edge weights W and diagonals S.

        Shapes
        ------
        weights : each (nnz,) or (runs, nnz)
        scales : each (nodes,) or (runs, nodes)
        """
        matrices = []
        for values, scale in zip(weights, scales, strict=True):
            row_scale = scale.index_select(-1, self.structure.row)
            col_scale = scale.index_select(-1, self.structure.col)
            matrices.append(SparseMatrix(self.structure, values * row_scale * col_scale))
        return matrices


def adjacency_with_self_loops(adjacency: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return the transposed adjacency matrix with self-loops of weight 1.

    Entry (i, j) of `adjacency` is the edge from i to j, so row i of the result lists the in-neighbours of i.
    """
    transposed = adjacency.T.tocsr()
    matrix = (transposed - sparse.diags(transposed.diagonal()) + sparse.eye(transposed.shape[0])).tocsr()
    matrix.sort_indices()
    return matrix


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A graph as tensors on a device.

    Attributes
    ----------
    features : SparseMatrix or Tensor of shape (nodes, features)
    adjacency : Adjacency
    labels : Tensor of shape (nodes,)
    num_classes : int
    """

    features: SparseMatrix | Tensor
    adjacency: Adjacency
    labels: Tensor
    num_classes: int

    @classmethod
    def from_graph(
        cls, graph: Graph, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
    ) -> DeviceGraph:
        """Copy a graph to a device."""
        return cls(
            features=features_to_device(graph.features, device=device, dtype=dtype),
            adjacency=Adjacency(graph.adjacency, device=device, dtype=dtype),
            labels=torch.as_tensor(graph.labels.copy(), device=device),
            num_classes=graph.num_classes,
        )

    @cached_property
    def unit_length_features(self) -> SparseMatrix | Tensor:
        """The features, every row divided by its l2 norm; a row of zeros stays zero."""
        if isinstance(self.features, Tensor):
            return functional.normalize(self.features, dim=-1)
        structure, values, form = self.features.structure, self.features.values, self.features.binary_form
        norms = SparseMatrix(structure, values.square()).row_sums().sqrt().clamp(min=1e-12)
        form = form and form._replace(row_values=form.row_values / norms)
        return SparseMatrix(structure, values / norms[structure.row], binary_form=form)

    @property
    def num_features(self) -> int:
        return (self.features.structure if isinstance(self.features, SparseMatrix) else self.features).shape[1]


def features_to_device(
    features: sparse.csr_matrix | np.ndarray, *, device: torch.device | str, dtype: torch.dtype = torch.float32
) -> SparseMatrix | Tensor:
    """Copy features to a device, sparse or dense as they are."""
    if isinstance(features, np.ndarray):
        return torch.as_tensor(features.copy(), device=device, dtype=dtype)
    values = torch.as_tensor(features.data.copy(), device=device, dtype=dtype)
    form = BinaryForm.from_matrix(features, device=device) if torch.device(device).type == "cuda" else None
    return SparseMatrix(CSRStructure(features, device=device), values, binary_form=form)
