"""AP-GCN: Spinelli, Scardapane and Uncini, Adaptive Propagation Graph Convolutional Network, IEEE TNNLS 2020."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_bool, check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.models.base import BatchedModel, ModelConfig, num_edges_with_self_loops, num_stored_features
from apgcn.nn.halting import check_steps
from apgcn.nn.layers import MLP
from apgcn.nn.operators import NormalizedAdjacency, Operator, PageRank
from apgcn.nn.propagation import AdaptivePropagation, PropagationOutput
from apgcn.ops.dense import run_means
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.dispatch import MAX_WIDTH
from apgcn.ops.rng import RandomStream


@dataclass(frozen=True)
class APGCNConfig(ModelConfig):
    """Hyperparameters of AP-GCN; the defaults are the paper's for Cora-ML.

    `penalty` (the paper's alpha) is the weight of the propagation cost in the loss; `halting_interval` is the number of
    epochs between two updates of the halting unit; `z0_dropout` and `update_dropout` are two dropouts of the authors'
    script, see docs/paper_vs_code.md. With `freeze_halted` the state of a node is frozen once it has halted, which
    saves computation; in the paper it is still updated. `teleport` is the fraction of z^0 that each step adds, as APPNP
    does; the paper's is 0. With `min_steps=0` a node may halt at its initial
    prediction, so that neighbours that mislead need not change it; in the paper every node takes a step.
    """

    name: ClassVar[str] = "apgcn"
    title: ClassVar[str] = "AP-GCN"
    citation: ClassVar[str] = "Spinelli, Scardapane and Uncini, IEEE TNNLS 2020"
    memory_advice: ClassVar[str] = "make max_steps or hidden_channels smaller"
    row_shardable: ClassVar[bool] = True
    supports_freezing: ClassVar[bool] = True  # False for another halting rule that does not implement `freeze_halted`

    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    max_steps: int = 10
    min_steps: int = 1
    epsilon: float = 0.01
    penalty: float = 0.005
    halting_interval: int = 5
    z0_dropout: float = 0.0
    update_dropout: float = 0.0
    freeze_halted: bool = False
    teleport: float = 0.0

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "halting_interval"):
            check_int(name, getattr(self, name))
        check_steps(self.min_steps, self.max_steps)
        for name in ("dropout", "edge_dropout", "z0_dropout", "update_dropout", "epsilon", "teleport"):
            check_fraction(name, getattr(self, name))
        check_number("penalty", self.penalty)
        check_bool("freeze_halted", self.freeze_halted)
        if self.freeze_halted and not self.supports_freezing:
            raise InvalidInput(f"freeze_halted must be False for {self.title}, got True.")

    @property
    def has_fused_kernel(self) -> bool:
        """Whether fused kernels compute halting and output too, not the states alone: with the paper's `min_steps`."""
        return self.min_steps == 1

    def operator(self, classes: int, rng: RandomStream) -> Operator:
        """The operator of a propagation step; a variant of AP-GCN has another."""
        if self.teleport == 0:
            return NormalizedAdjacency(self.edge_dropout)
        return PageRank(self.teleport, self.edge_dropout)

    @property
    def step_coefficients(self) -> tuple[float, float]:
        """Factors of A z^(k-1) and of z^0 in a step: z^k = the first A z^(k-1) + the second z^0."""
        return 1 - self.teleport, self.teleport

    def build(self, graph: DeviceGraph, rng: RandomStream) -> BatchedAPGCN:
        """A batched model for a graph, one run per run of `rng`, which draws the initial weights."""
        return BatchedAPGCN(self, in_channels=graph.num_features, out_channels=graph.num_classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """Estimated number of floats in memory per run of a batch in training."""
        hidden = graph.num_nodes * self.hidden_channels
        weights = graph.num_features * self.hidden_channels
        return 8 * num_stored_features(graph) + 6 * hidden + 8 * self._propagation_floats(graph) + 8 * weights

    def floats_saved_by_kernels(self, graph: Graph) -> int:
        """Estimated number of these that a run does not need where fused kernels are available."""
        is_fused = self.has_fused_kernel and graph.num_classes <= MAX_WIDTH
        return 4 * self._propagation_floats(graph) if is_fused else 0

    def _propagation_floats(self, graph: Graph) -> int:
        """Number of states and messages in all steps."""
        states = (self.max_steps + 1) * graph.num_nodes * graph.num_classes
        return states + self.max_steps * num_edges_with_self_loops(graph)


class BatchedAPGCN(BatchedModel):
    """A two-layer MLP at every node, then adaptive propagation.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2         dropout before each layer
        output = AdaptivePropagation(z^0)            a new edge dropout mask at each step

    All weights have a leading run axis; a single model is a batch of one run.

    Parameters
    ----------
    config : APGCNConfig
    in_channels, out_channels : int
        Columns of X and of the output.
    rng : RandomStream
        Draws the initial weights.

    Examples
    --------
    >>> from apgcn import clean, load
    >>> graph = DeviceGraph.from_graph(clean(load("cora")))
    >>> model = APGCNConfig().build(graph, RandomStream([1, 2, 3]))
    >>> output, steps, remainder = model(graph)
    >>> output.shape, steps.shape
    (torch.Size([3, 2485, 7]), torch.Size([3, 2485]))
    """

    def __init__(self, config: APGCNConfig, *, in_channels: int, out_channels: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(in_channels, config.hidden_channels, out_channels, dropout=config.dropout, rng=rng)
        self.propagation = AdaptivePropagation(
            config.operator(out_channels, rng),
            channels=out_channels,
            rng=rng,
            max_steps=config.max_steps,
            min_steps=config.min_steps,
            epsilon=config.epsilon,
            z0_dropout=config.z0_dropout,
            update_dropout=config.update_dropout,
            freeze_halted=config.freeze_halted,
        )

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits (runs, nodes, classes), steps and remainders of all nodes; training with `rng`, evaluation without."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng)

    def forward_nodes(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """`forward` of some nodes (runs, m): propagation ends when all of them have halted."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng, nodes)

    def penalty_loss(self, output: PropagationOutput, nodes: Tensor) -> Tensor:
        """penalty * mean over some nodes (runs, m) of the propagation cost K + R, one value per run."""
        return self.config.penalty * run_means(torch.gather(output.cost, 1, nodes))

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights under l2 regularisation: the first layer's."""
        return (self.predict.first.weight,)

    def is_trainable(self, parameter: nn.Parameter, epoch: int) -> bool:
        """Whether a parameter is updated on an epoch: the halting unit is on every `halting_interval`-th only."""
        in_halting_unit = any(parameter is weight for weight in self.propagation.halting_parameters())
        return not in_halting_unit or epoch % self.config.halting_interval == 0

    @property
    def trainable_period(self) -> int:
        return self.config.halting_interval
