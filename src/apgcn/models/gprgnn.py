"""GPR-GNN: Chien et al., Adaptive Universal Generalized PageRank Graph Neural Network, ICLR 2021."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_fraction
from apgcn.models.state_sums import BatchedStateSum, StateSumConfig
from apgcn.ops.dense import matmul
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class GPRGNNConfig(StateSumConfig):
    """Hyperparameters of GPR-GNN; `teleport` is that of the PageRank with whose weights the training begins.

    The paper's program has `z0_dropout`.
    """

    name: ClassVar[str] = "gprgnn"
    title: ClassVar[str] = "GPR-GNN"
    citation: ClassVar[str] = "Chien et al., ICLR 2021"

    z0_dropout: float = 0.5
    teleport: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fraction("teleport", self.teleport)

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedGPRGNN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedGPRGNN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)


class BatchedGPRGNN(BatchedStateSum):
    """A sum over the states of T steps with one learned weight for each step.

        output = gamma_0 z^0 + ... + gamma_T z^T

    gamma begins as the weights of personalised PageRank, teleport (1 - teleport)^k, and (1 - teleport)^T for z^T; it
    may become negative. l2 regularisation is on W_1 and W_2.
    """

    def __init__(self, config: GPRGNNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__(config, in_channels=in_channels, out_channels=out_channels, rng=rng)
        weights = config.teleport * (1 - config.teleport) ** torch.arange(config.max_steps + 1.0)
        weights[-1] = (1 - config.teleport) ** config.max_steps
        self.gamma = nn.Parameter(weights.to(rng.device).repeat(rng.runs, 1)[..., None])  # (runs, T + 1, 1)

    def combine(self, states: Tensor) -> Tensor:
        """The sum of the states, each times the weight of its step."""
        columns = states.permute(1, 2, 3, 0)  # (runs, nodes, classes, T + 1)
        return matmul(columns.flatten(1, 2), self.gamma).view(columns.shape[:-1])
