"""JK: Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, ICML 2018; by concatenation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_fraction, check_int
from apgcn.data.graph import Graph
from apgcn.models.base import ModelConfig, Network, heard, stored_features
from apgcn.models.presets import PPNP, Preset, as_on_amazon, protocol
from apgcn.nn.layers import Linear, dropout, glorot, zeros
from apgcn.nn.operators import dropped_matrices
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream

SIZE = {"layers": 3, "hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.0}


@dataclass(frozen=True)
class JKConfig(ModelConfig):
    """What can be chosen about a jumping knowledge network; `edge_dropout` takes entries of the normalised matrix."""

    name: ClassVar[str] = "jk"
    title: ClassVar[str] = "JK"
    citation: ClassVar[str] = "Xu et al., ICML 2018"
    given: ClassVar[tuple[Preset, ...]] = (
        protocol("published"),
        Preset("published", PPNP, {**SIZE, "l2": 1e-3}),
        *as_on_amazon(SIZE),
    )
    memory_advice: ClassVar[str] = "make layers or hidden smaller"

    layers: int = 3
    hidden_channels: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_int("layers", self.layers)
        check_int("hidden_channels", self.hidden_channels)
        check_fraction("dropout", self.dropout)
        check_fraction("edge_dropout", self.edge_dropout)

    @property
    def max_steps(self) -> int:
        return self.layers

    def build(self, graph: DeviceGraph, rng: RandomStream) -> JK:
        """A pack of networks for a graph, one per run of the noise."""
        return JK(self, features=graph.num_features, classes=graph.classes, rng=rng)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden = self.layers * graph.num_nodes * self.hidden_channels
        weights = (graph.num_features + self.layers * self.hidden_channels) * self.hidden_channels
        messages = 5 * self.layers * heard(graph)
        answers = (12 * graph.num_nodes + 8 * self.layers * self.hidden_channels) * graph.num_classes
        return 8 * stored_features(graph) + 10 * hidden + answers + messages + 8 * weights


class JK(Network):
    """Layers of a GCN, and a last map that sees what every one of them said.

        H_l    = ReLU(A H_(l-1) W_l + b_l)         H_0 = X, dropout of every layer's input and of A
        output = [H_1, ..., H_L] W + b

    l2 shrinks all weight matrices.
    """

    def __init__(self, config: JKConfig, *, features: int, classes: int, rng: RandomStream):
        super().__init__()
        self.config = config
        widths = [features] + [config.hidden_channels] * config.layers
        self.w = nn.ParameterList(glorot(rng, *widths[layer : layer + 2]) for layer in range(config.layers))
        self.b = nn.ParameterList(zeros(rng, 1, config.hidden_channels) for _ in range(config.layers))
        self.last = Linear(config.layers * config.hidden_channels, classes, rng=rng)

    def forward(self, graph: DeviceGraph, rng: RandomStream | None = None) -> PropagationOutput:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        rate, layers = self.config.dropout, self.config.layers
        matrices = dropped_matrices(graph.adjacency.normalized, self.config.edge_dropout, steps=layers, rng=rng)
        h, said = graph.features, []
        for a, w, b in zip(matrices, self.w, self.b, strict=True):
            h = (a @ (dropout(h, rate, rng) @ w) + b).relu()
            said.append(h)
        output = self.last(dropout(torch.cat(said, dim=-1), rate, rng))
        return PropagationOutput.everywhere(output, steps=layers)

    def l2_parameters(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: those of all layers."""
        return (*self.w, self.last.weight)
