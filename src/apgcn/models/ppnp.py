"""PPNP: Gasteiger et al., Predict then Propagate: Graph Neural Networks meet Personalized PageRank, ICLR 2019."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.models.base import BatchedModel, ModelConfig, num_stored_features
from apgcn.nn.layers import MLP, dropout
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.dense import matmul
from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.devices import available_memory
from apgcn.ops.rng import RandomStream

MATRIX_COPIES = 3  # in memory, while the matrix is inverted
ROW_COPIES = 5  # of the training nodes' rows, while their dropout mask is drawn
MAX_TRAIN_PER_CLASS = 60  # in the experiments
MIN_TELEPORT = 0.001  # the smallest eigenvalue of the matrix that is inverted; single precision resolves 1e-7


@dataclass(frozen=True)
class PPNPConfig(ModelConfig):
    """Hyperparameters of PPNP; `matrix_dropout` is applied to the dense inverse, the propagation matrix.

    `z0_dropout` is applied to the initial prediction, as in the script of AP-GCN's authors.
    """

    name: ClassVar[str] = "ppnp"
    title: ClassVar[str] = "PPNP"
    citation: ClassVar[str] = "Gasteiger et al., ICLR 2019"
    max_steps: ClassVar[int] = 1  # the product with the inverse counts as one step
    memory_advice: ClassVar[str] = "use appnp, which needs no inverse"

    hidden_channels: int = 64
    dropout: float = 0.5
    matrix_dropout: float = 0.5
    teleport: float = 0.1
    z0_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        for name in ("dropout", "matrix_dropout", "teleport", "z0_dropout"):
            check_fraction(name, getattr(self, name))
        if self.teleport < MIN_TELEPORT:
            raise InvalidInput(
                f"teleport must be at least {MIN_TELEPORT} for the matrix to be invertible, got {self.teleport:g}."
            )

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedPPNP:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedPPNP(self, graph, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden, weights = graph.num_nodes * self.hidden_channels, graph.num_features * self.hidden_channels
        rows = ROW_COPIES * MAX_TRAIN_PER_CLASS * graph.num_classes * graph.num_nodes
        return 8 * num_stored_features(graph) + 6 * hidden + rows + 8 * weights

    def floats_shared(self, graph: Graph) -> int:
        """Estimated number of further floats of a batch, independent of the number of runs: the inverse."""
        return MATRIX_COPIES * graph.num_nodes**2


class BatchedPPNP(BatchedModel):
    """A two-layer MLP at every node, then the limit of infinitely many steps of APPNP.

        z      = ReLU(X W_1 + b_1) W_2 + b_2                   dropout before each layer
        output = teleport (I - (1 - teleport) A)^-1 z          dropout of the matrix

    The inverse is dense: n^2 values. l2 regularisation is on W_1.
    """

    inverse: Tensor

    def __init__(self, config: PPNPConfig, graph: DeviceGraph, *, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(
            graph.num_features, config.hidden_channels, graph.num_classes, dropout=config.dropout, rng=rng
        )
        self.register_buffer("inverse", pagerank_matrix(graph.adjacency, config.teleport), persistent=False)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes) of all nodes; training with `rng`, evaluation without."""
        z = dropout(self.predict(graph.features, rng), self.config.z0_dropout, rng)
        output = matmul(dropout(self.inverse, self.config.matrix_dropout, rng), z)
        return PropagationOutput.fixed_steps(output, steps=1)

    def forward_nodes(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of some nodes (runs, m): the dropout mask has m rows of the matrix, not n."""
        z = dropout(self.predict(graph.features, rng), self.config.z0_dropout, rng)
        output = matmul(dropout(self.inverse[nodes], self.config.matrix_dropout, rng), z)
        return PropagationOutput.fixed_steps(output, steps=1)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.predict.first.weight,)


_CACHE: WeakKeyDictionary[Adjacency, tuple[float, Tensor]] = WeakKeyDictionary()  # the last teleport of each graph


def pagerank_matrix(adjacency: Adjacency, teleport: float) -> Tensor:
    """teleport (I - (1 - teleport) A)^-1, dense, of shape (nodes, nodes); cached for the run batches of a graph.

    Raises
    ------
    InvalidInput
        If it does not fit into memory; nothing is allocated then.
    """
    if adjacency in _CACHE and _CACHE[adjacency][0] == teleport:
        return _CACHE[adjacency][1]
    nodes, values = adjacency.num_nodes, adjacency.normalized.values
    needed, available = MATRIX_COPIES * values.element_size() * nodes**2, available_memory(values.device)
    if needed > available:
        raise InvalidInput(
            f"PPNP inverts a matrix of {nodes:,} x {nodes:,} numbers, which needs {needed:,} bytes, but "
            f"{values.device} has {available:,}; {PPNPConfig.memory_advice}."
        )
    matrix = adjacency.normalized.to_dense().mul_(teleport - 1)
    matrix.diagonal().add_(1)
    inverse = torch.linalg.inv(matrix).mul_(teleport)
    _CACHE[adjacency] = teleport, inverse
    return inverse
