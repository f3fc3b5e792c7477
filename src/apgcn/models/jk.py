"""JK: Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, ICML 2018; by concatenation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn._utils.validation import check_share, check_whole
from apgcn.data.graph import Graph
from apgcn.models.base import ModelSettings, Network, heard, stored_features
from apgcn.models.presets import PPNP, Given, as_on_amazon, protocol
from apgcn.nn.layers import Linear, dropout, glorot, zeros
from apgcn.nn.operators import dropped_matrices
from apgcn.nn.propagation import Propagated
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.rng import Noise

SIZE = {"layers": 3, "hidden": 64, "dropout": 0.5, "edge_dropout": 0.0}


@dataclass(frozen=True)
class JKSettings(ModelSettings):
    """What can be chosen about a jumping knowledge network; `edge_dropout` takes entries of the normalised matrix."""

    name: ClassVar[str] = "jk"
    title: ClassVar[str] = "JK"
    citation: ClassVar[str] = "Xu et al., ICML 2018"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given("published", PPNP, {**SIZE, "l2": 1e-3}),
        *as_on_amazon(SIZE),
    )
    to_need_less: ClassVar[str] = "make layers or hidden smaller"

    layers: int = 3
    hidden: int = 64
    dropout: float = 0.5
    edge_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_whole("layers", self.layers)
        check_whole("hidden", self.hidden)
        check_share("dropout", self.dropout)
        check_share("edge_dropout", self.edge_dropout)

    @property
    def max_steps(self) -> int:
        return self.layers

    def build(self, graph: GraphTensors, noise: Noise) -> JK:
        """A pack of networks for a graph, one per run of the noise."""
        return JK(self, features=graph.num_features, classes=graph.classes, noise=noise)

    def floats_per_run(self, graph: Graph) -> int:
        """About how many numbers one run of a pack keeps in memory while it trains."""
        hidden = self.layers * graph.num_nodes * self.hidden
        weights = (graph.num_features + self.layers * self.hidden) * self.hidden
        messages = 5 * self.layers * heard(graph)
        answers = (12 * graph.num_nodes + 8 * self.layers * self.hidden) * graph.num_classes
        return 8 * stored_features(graph) + 10 * hidden + answers + messages + 8 * weights


class JK(Network):
    """Layers of a GCN, and a last map that sees what every one of them said.

        H_l    = ReLU(A H_(l-1) W_l + b_l)         H_0 = X, dropout of every layer's input and of A
        output = [H_1, ..., H_L] W + b

    l2 shrinks all weight matrices.
    """

    def __init__(self, settings: JKSettings, *, features: int, classes: int, noise: Noise):
        super().__init__()
        self.settings = settings
        widths = [features] + [settings.hidden] * settings.layers
        self.w = nn.ParameterList(glorot(noise, *widths[layer : layer + 2]) for layer in range(settings.layers))
        self.b = nn.ParameterList(zeros(noise, 1, settings.hidden) for _ in range(settings.layers))
        self.last = Linear(settings.layers * settings.hidden, classes, noise=noise)

    def forward(self, graph: GraphTensors, noise: Noise | None = None) -> Propagated:
        """Logits of all nodes. With noise this is training, without it evaluation."""
        rate, layers = self.settings.dropout, self.settings.layers
        matrices = dropped_matrices(graph.adjacency.normalized, self.settings.edge_dropout, steps=layers, noise=noise)
        h, said = graph.features, []
        for a, w, b in zip(matrices, self.w, self.b, strict=True):
            h = (a @ (dropout(h, rate, noise) @ w) + b).relu()
            said.append(h)
        output = self.last(dropout(torch.cat(said, dim=-1), rate, noise))
        return Propagated.everywhere(output, steps=layers)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: those of all layers."""
        return (*self.w, self.last.weight)
