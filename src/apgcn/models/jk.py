"""JK: Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, ICML 2018; by concatenation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from apgcn.checks import check_share, check_whole
from apgcn.graph import Graph
from apgcn.layers import Linear, dropout, glorot, zeros
from apgcn.models.given import PPNP, Given, protocol
from apgcn.models.memory import heard, stored_features
from apgcn.models.network import PlainNetwork
from apgcn.noise import Noise
from apgcn.propagation import Propagated
from apgcn.tensors import GraphTensors


@dataclass(frozen=True)
class JKSettings:
    """What can be chosen about a jumping knowledge network."""

    name: ClassVar[str] = "jk"
    title: ClassVar[str] = "JK"
    citation: ClassVar[str] = "Xu et al., ICML 2018"
    given: ClassVar[tuple[Given, ...]] = (
        protocol("published"),
        Given("published", PPNP, {"layers": 3, "hidden": 64, "dropout": 0.5, "l2": 1e-3}),
    )

    layers: int = 3
    hidden: int = 64
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_whole("layers", self.layers)
        check_whole("hidden", self.hidden)
        check_share("dropout", self.dropout)

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
        return 8 * stored_features(graph) + 10 * hidden + heard(graph) + 8 * weights


class JK(PlainNetwork):
    """Layers of a GCN, and a last map that sees what every one of them said.

        H_l    = ReLU(A H_(l-1) W_l + b_l)         H_0 = X, dropout of every layer's input
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
        a, rate = graph.adjacency.normalized, self.settings.dropout
        h, said = graph.features, []
        for w, b in zip(self.w, self.b, strict=True):
            h = (a @ (dropout(h, rate, noise) @ w) + b).relu()
            said.append(h)
        output = self.last(dropout(torch.cat(said, dim=-1), rate, noise))
        return Propagated.everywhere(output, steps=self.settings.layers)

    def decayed(self) -> Iterable[Tensor]:
        """The weights that l2 regularisation shrinks: those of all layers."""
        return (*self.w, self.last.weight)
