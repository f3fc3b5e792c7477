"""AP-GCN: Spinelli, Scardapane and Uncini, Adaptive Propagation Graph Convolutional Network, IEEE TNNLS 2020."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_bool, check_fraction, check_int, check_number
from apgcn.data.graph import Graph
from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import AP_GCN, PPNP, TEXT, Kind, Preset
from apgcn.nn.layers import MLP
from apgcn.nn.operators import NormalizedAdjacency, Operator
from apgcn.nn.propagation import AdaptivePropagation, PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream

SCRIPT = "the authors' script, see docs/paper_vs_code.md"


def _given(kind: Kind) -> tuple[Preset, ...]:
    """What the paper sets; its model's own paper being the paper, it is the published kind too."""
    text = {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, "max_steps": 10, "halting_interval": 5}
    return (
        Preset(kind, f"protocol of the {PPNP}", TEXT),
        Preset(kind, AP_GCN, {**text, "learning_rate": 0.01, "l2": 0.008, "z0_dropout": 0.0, "update_dropout": 0.0}),
        Preset(kind, SCRIPT, {"epsilon": 0.01, "freeze_halted": False}),
        Preset(kind, "AP-GCN paper, Table IV", {"penalty": 0.001}, ("citeseer", "pubmed")),
        Preset(kind, "AP-GCN paper, Table IV", {"penalty": 0.005}, ("cora_ml",)),
        Preset(kind, "not in the paper: as for Cora-ML", {"penalty": 0.005}, ("cora",)),
        Preset(kind, "AP-GCN paper, Table IV", {"penalty": 0.05}, ("ms_academic", *AMAZON_GRAPHS)),
        Preset(kind, AP_GCN, {"l2": 0.0}, AMAZON_GRAPHS),
        Preset(kind, SCRIPT, {"z0_dropout": 0.5, "update_dropout": 0.5, "monitor": "training"}, AMAZON_GRAPHS),
    )


# for its variations
OURS = tuple(
    Preset("tuned", f"AP-GCN's, not searched: {one.source}", one.values, one.datasets) for one in _given("paper")
)


@dataclass(frozen=True)
class APGCNConfig(ModelConfig):
    """What can be chosen about AP-GCN; the defaults are the paper's for Cora-ML.

    `penalty` (the paper's alpha) is the price of a step in the objective; `halting_interval` says on which epochs the
    halting unit learns; `z0_dropout` and `update_dropout` are two dropouts of the authors' script, see
    docs/paper_vs_code.md. With `freeze_halted` a node keeps its value once it has halted, which saves work; in the
    paper it goes on changing.
    """

    name: ClassVar[str] = "apgcn"
    title: ClassVar[str] = "AP-GCN"
    citation: ClassVar[str] = "Spinelli, Scardapane and Uncini, IEEE TNNLS 2020"
    given: ClassVar[tuple[Preset, ...]] = (*_given("paper"), *_given("published"))
    memory_advice: ClassVar[str] = "make max_steps or hidden smaller"
    row_shardable: ClassVar[bool] = True
    has_fused_kernel: ClassVar[bool] = True  # its steps of listening can be written out

    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.5
    max_steps: int = 10
    epsilon: float = 0.01
    penalty: float = 0.005
    halting_interval: int = 5
    z0_dropout: float = 0.0
    update_dropout: float = 0.0
    freeze_halted: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden_channels", "max_steps", "halting_interval"):
            check_int(name, getattr(self, name))
        for name in ("dropout", "edge_dropout", "z0_dropout", "update_dropout", "epsilon"):
            check_fraction(name, getattr(self, name))
        check_number("penalty", self.penalty)
        check_bool("freeze_halted", self.freeze_halted)

    def operator(self, classes: int, rng: RandomStream) -> Operator:
        """One step of listening; a variation of AP-GCN has another."""
        return NormalizedAdjacency(self.edge_dropout)

    @property
    def mixing(self) -> tuple[float, float]:
        """How much a step takes of what is heard and of the seeds: z^k = the first A z^(k-1) + the second z^0."""
        return 1.0, 0.0

    def build(self, graph: DeviceGraph, rng: RandomStream) -> APGCN:
        """A pack of networks for a graph, one per run of the noise."""
        return APGCN(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains.

        The factors count the copies that dropout, the backward pass and Adam make.
        """
        hidden = graph.num_nodes * self.hidden_channels
        weights = graph.num_features * self.hidden_channels
        return 8 * stored_features(graph) + 6 * hidden + 8 * self._listening(graph) + 8 * weights

    def floats_saved(self, graph: Graph) -> int:
        """About how many of these are not kept where listening is written out."""
        return 4 * self._listening(graph) if self.has_fused_kernel else 0

    def _listening(self, graph: Graph) -> int:
        """How many states and messages there are in all steps."""
        return (self.max_steps + 1) * graph.num_nodes * graph.num_classes + self.max_steps * heard(graph)


class APGCN(Network):
    """A two-layer network at every node, then listening for as long as the node wants.

        z^0    = ReLU(X W_1 + b_1) W_2 + b_2         dropout before each layer
        output = AdaptivePropagation(z^0)            fresh edge dropout at each step

    All weights have a leading run axis; a single network is a pack of one.

    Parameters
    ----------
    settings : APGCNSettings
    features, classes : int
        Width of X and of the output.
    noise : Noise
        Draws the initial weights.

    Examples
    --------
    >>> from apgcn import clean, load
    >>> graph = DeviceGraph.of(clean(load("cora")))
    >>> network = APGCNConfig().build(graph, RandomStream([1, 2, 3]))
    >>> output, steps, remainder = network(graph)
    >>> output.shape, steps.shape
    (torch.Size([3, 2485, 7]), torch.Size([3, 2485]))
    """

    def __init__(self, config: APGCNConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(features, config.hidden_channels, classes, rate=config.dropout, rng=rng)
        self.propagation = AdaptivePropagation(
            config.operator(classes, rng),
            channels=classes,
            rng=rng,
            max_steps=config.max_steps,
            epsilon=config.epsilon,
            z0_dropout=config.z0_dropout,
            update_dropout=config.update_dropout,
            freeze_halted=config.freeze_halted,
        )

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits, steps and remainders of all nodes. With noise this is training, without it evaluation."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng)

    def at(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream) -> PropagationOutput:
        """`forward`, in which nobody listens for others than these nodes."""
        return self.propagation(self.predict(graph.features, rng), graph.adjacency, rng, nodes)

    def penalties(self, outcome: PropagationOutput, nodes: Tensor) -> Tensor:
        """penalty * mean over some nodes (runs, m) of K + R, one value per run: what listening costs."""
        return self.config.penalty * torch.gather(outcome.cost, 1, nodes).mean(1)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.predict.first.weight,)

    def is_trainable(self, parameter: nn.Parameter, epoch: int) -> bool:
        """Whether a parameter moves on an epoch: the halting unit does on every 5th only (`halting_interval`)."""
        alternates = any(parameter is halting for halting in self.propagation.halting_unit.parameters())
        return not alternates or epoch % self.config.halting_interval == 0

    @property
    def cycle(self) -> int:
        return self.config.halting_interval
