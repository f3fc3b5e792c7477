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
from apgcn.models.base import ModelConfig, Network, stored_features
from apgcn.models.presets import PPNP as PPNP_PAPER
from apgcn.models.presets import Preset, as_on_amazon, protocol
from apgcn.nn.layers import MLP, dropout
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import Adjacency, DeviceGraph
from apgcn.ops.devices import memory_of
from apgcn.ops.rng import RandomStream

COPIES = 3  # of the matrix, while it is inverted
COPIES_PER_RUN = 5  # of the training nodes' rows, while dropout is drawn for them
MAX_LABELS = 60  # a class: more are not seen in the experiments
MIN_TELEPORT = 0.001  # the matrix that is inverted has it as its smallest eigenvalue; single precision ends at 1e-7


SIZE = {"hidden_channels": 64, "dropout": 0.5, "matrix_dropout": 0.5}


@dataclass(frozen=True)
class PPNPConfig(ModelConfig):
    """What can be chosen about PPNP; `matrix_dropout` takes entries of the inverse, which all nodes hear through."""

    name: ClassVar[str] = "ppnp"
    title: ClassVar[str] = "PPNP"
    citation: ClassVar[str] = "Gasteiger et al., ICLR 2019"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset("published", PPNP_PAPER, {**SIZE, "teleport": 0.1, "l2": 0.005}),
        Preset("published", PPNP_PAPER, {"teleport": 0.2}, ("ms_academic",)),
        *as_on_amazon({**SIZE, "teleport": 0.2}),
    )
    max_steps: ClassVar[int] = 1  # one product with the inverse, through which a node hears its whole component
    memory_advice: ClassVar[str] = "use appnp, which needs no inverse"

    hidden_channels: int = 64
    dropout: float = 0.5
    matrix_dropout: float = 0.5
    teleport: float = 0.1

    def __post_init__(self) -> None:
        check_int("hidden_channels", self.hidden_channels)
        for name in ("dropout", "matrix_dropout", "teleport"):
            check_fraction(name, getattr(self, name))
        if self.teleport < MIN_TELEPORT:
            raise InvalidInput(
                f"teleport must be at least {MIN_TELEPORT} for the inverse to be found, got {self.teleport:g}."
            )

    def build(self, graph: DeviceGraph, rng: RandomStream) -> PPNP:
        """A pack of networks for a graph, one per run of the noise."""
        return PPNP(self, graph, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden, weights = graph.num_nodes * self.hidden_channels, graph.num_features * self.hidden_channels
        rows = COPIES_PER_RUN * MAX_LABELS * graph.num_classes * graph.num_nodes
        return 8 * stored_features(graph) + 6 * hidden + rows + 8 * weights

    def floats_shared(self, graph: Graph) -> int:
        """About how many more numbers a pack keeps: the inverse."""
        return COPIES * graph.num_nodes**2


class PPNP(Network):
    """A two-layer network at every node, then what infinitely many steps of APPNP would give.

        z      = ReLU(X W_1 + b_1) W_2 + b_2                   dropout before each layer
        output = teleport (I - (1 - teleport) A)^-1 z          dropout of the matrix

    The inverse is dense: n^2 numbers. l2 shrinks W_1.
    """

    inverse: Tensor

    def __init__(self, config: PPNPConfig, graph: DeviceGraph, *, rng: RandomStream):
        super().__init__()
        self.config = config
        self.predict = MLP(graph.num_features, config.hidden_channels, graph.classes, rate=config.dropout, rng=rng)
        self.register_buffer("inverse", page_rank(graph.adjacency, config.teleport), persistent=False)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        z = self.predict(graph.features, rng)
        if rng is None or self.config.matrix_dropout == 0:
            wide = z.transpose(0, 1).flatten(1)  # (nodes, runs * classes): all runs in one product
            output = (self.inverse @ wide).view(len(wide), *z.shape[::2]).transpose(0, 1)
        else:
            output = dropout(self.inverse, self.config.matrix_dropout, rng) @ z
        return PropagationOutput.everywhere(output, steps=1)

    def at(self, nodes: Tensor, graph: DeviceGraph, rng: RandomStream) -> PropagationOutput:
        """Logits of some nodes (runs, m), zero elsewhere: dropout is drawn for m rows of the matrix, not for n."""
        z = self.predict(graph.features, rng)
        output = dropout(self.inverse[nodes], self.config.matrix_dropout, rng) @ z
        places = nodes[..., None].expand_as(output)
        return PropagationOutput.everywhere(torch.zeros_like(z).scatter(1, places, output), steps=1)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: the first layer's."""
        return (self.predict.first.weight,)


_LAST: WeakKeyDictionary[Adjacency, tuple[float, Tensor]] = WeakKeyDictionary()  # what was found for a graph


def page_rank(adjacency: Adjacency, teleport: float) -> Tensor:
    """teleport (I - (1 - teleport) A)^-1, dense, of shape (nodes, nodes); found once for the packs of a graph.

    Raises
    ------
    InvalidInput
        If it would not fit into memory; nothing is allocated then.
    """
    if adjacency in _LAST and _LAST[adjacency][0] == teleport:
        return _LAST[adjacency][1]
    nodes, values = adjacency.nodes, adjacency.normalized.values
    needed, there = COPIES * values.element_size() * nodes**2, memory_of(values.device)
    if needed > there:
        raise InvalidInput(
            f"PPNP inverts a matrix of {nodes:,} x {nodes:,} numbers, which needs {needed:,} bytes, but "
            f"{values.device} has {there:,}; {PPNPConfig.memory_advice}."
        )
    matrix = adjacency.normalized.to_dense().mul_(teleport - 1)
    matrix.diagonal().add_(1)
    inverse = torch.linalg.inv(matrix).mul_(teleport)
    _LAST[adjacency] = teleport, inverse
    return inverse
