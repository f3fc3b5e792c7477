"""DAGNN: Liu, Gao and Ji, Towards Deeper Graph Neural Networks, KDD 2020."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from apgcn.models.state_sums import BatchedStateSum, StateSumConfig
from apgcn.nn.layers import Linear
from apgcn.nn.propagation import sigmoid_scores
from apgcn.ops.dense import axis_sums, scale_rows
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class DAGNNConfig(StateSumConfig):
    """Hyperparameters of DAGNN; `z0_dropout` is that of the script of AP-GCN's authors, see docs/paper_vs_code.md."""

    name: ClassVar[str] = "dagnn"
    title: ClassVar[str] = "DAGNN"
    citation: ClassVar[str] = "Liu et al., KDD 2020"

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedDAGNN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedDAGNN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)


class BatchedDAGNN(BatchedStateSum):
    """A sum over the states of T steps with a weight for each node and step.

        s^k    = sigmoid(z^k s + b)                     one score for every node, k = 0, ..., T
        output = sum over k = 0, ..., T of s^k z^k

    Every node takes T steps; the scores are weights, nothing stops. l2 regularisation is on all weights, not on biases,
    which the authors' program includes.
    """

    def __init__(self, config: DAGNNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__(config, in_channels=in_channels, out_channels=out_channels, rng=rng)
        self.score = Linear(out_channels, 1, rng=rng)

    def combine(self, states: Tensor) -> Tensor:
        """The sum of the states, each times its score."""
        return axis_sums(scale_rows(states, sigmoid_scores(states, self.score)), 0)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: all."""
        return *super().l2_parameters(), self.score.weight
