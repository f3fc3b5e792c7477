"""AP-GCN and APPNP as one would write them with stock PyTorch Geometric, for the comparison of speed.

Dense features, one run at a time, `dropout_edge` and `gcn_norm` at every step. APPNP has no edge dropout, because that
of PyTorch Geometric's layer differs from the paper's (its issue 10783), and normalises once (`cached=True`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn.data.graph import Graph
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import Run


class Baseline(NamedTuple):
    """A training step and an evaluation."""

    step: Callable[[], None]
    evaluate: Callable[[], object]


def build_baselines(
    graph: Graph, run: Run, model: APGCNConfig, training: TrainingConfig, *, device: torch.device
) -> dict[str, Baseline]:
    """`pyg_apgcn` and `pyg_appnp` on a graph; an empty dict if PyTorch Geometric is not installed."""
    try:
        import torch_geometric  # noqa: F401
    except ImportError:
        return {}
    from torch_geometric.nn import APPNP

    propagations = {
        "pyg_apgcn": build_adaptive_propagation(graph.num_classes, model),
        "pyg_appnp": APPNP(K=model.max_steps, alpha=0.1, dropout=0.0, cached=True),
    }
    channels = graph.num_features, model.hidden_channels, graph.num_classes
    return {
        name: _build_baseline(
            _Classifier(*channels, model.dropout, propagation), graph, run, model, training, device=device
        )
        for name, propagation in propagations.items()
    }


class _Classifier(nn.Module):
    """Two-layer MLP, followed by a propagation of its output."""

    def __init__(
        self, in_channels: int, hidden_channels: int, out_channels: int, dropout: float, propagation: nn.Module
    ):
        super().__init__()
        self.first, self.second = nn.Linear(in_channels, hidden_channels), nn.Linear(hidden_channels, out_channels)
        self.dropout, self.propagation = dropout, propagation

    def forward(self, x: Tensor, edge_index: Tensor):
        x = functional.dropout(x, self.dropout, self.training)
        x = functional.dropout(self.first(x).relu(), self.dropout, self.training)
        return self.propagation(self.second(x), edge_index)


def build_adaptive_propagation(out_channels: int, model: APGCNConfig) -> nn.Module:
    """AP-GCN's propagation as a PyTorch Geometric `MessagePassing` layer.

    `forward(x, edge_index)` returns the output (nodes, channels), the steps K (nodes,) and the remainder R (nodes,).
    Every node is updated at every step.
    """
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import dropout_edge

    class AdaptivePropagation(MessagePassing):
        def __init__(self):
            super().__init__(aggr="add")
            self.halting_unit = nn.Linear(out_channels, 1)
            nn.init.constant_(self.halting_unit.bias, -math.log(model.max_steps))

        def forward(self, x: Tensor, edge_index: Tensor):
            steps, cumulative = x.new_ones(len(x)), x.new_zeros(len(x))
            active = x.new_ones(len(x), dtype=torch.bool)
            output, remainder = torch.zeros_like(x), x.new_ones(len(x))
            for k in range(1, model.max_steps + 1):
                dropped, _ = dropout_edge(edge_index, p=model.edge_dropout, training=self.training)
                dropped, norm = gcn_norm(dropped, num_nodes=len(x))
                previous, x = x, self.propagate(dropped, x=x, norm=norm)
                h = self.halting_unit(x).sigmoid().squeeze(1)
                last = active & (cumulative + h >= 1 - model.epsilon) if k < model.max_steps else active
                p = torch.where(last, 1 - cumulative, cumulative + h)[:, None]
                output = output + active[:, None] * (p * x + (1 - p) * previous)
                remainder = torch.where(last, 1 - cumulative, remainder)
                active = active & ~last
                cumulative, steps = torch.where(active, cumulative + h, cumulative), steps + active
            return output / steps[:, None], steps, remainder

        def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
            return norm[:, None] * x_j

    return AdaptivePropagation()


def _build_baseline(
    classifier: _Classifier,
    graph: Graph,
    run: Run,
    model: APGCNConfig,
    training: TrainingConfig,
    *,
    device: torch.device,
) -> Baseline:
    classifier = classifier.to(device)
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    x = torch.tensor(features, dtype=torch.float32, device=device)
    edge_index = torch.tensor(np.stack(graph.adjacency.nonzero()), dtype=torch.int64, device=device)
    y = torch.tensor(graph.labels, device=device)
    train, stopping = (torch.tensor(nodes, device=device) for nodes in (run.split.train, run.split.stopping))
    optimizer = torch.optim.Adam(classifier.parameters(), lr=training.learning_rate)

    def loss_and_output() -> tuple[Tensor, Tensor]:
        propagated = classifier(x, edge_index)
        output = propagated if isinstance(propagated, Tensor) else propagated[0]
        loss = functional.cross_entropy(output[train], y[train])
        loss = loss + training.l2 / 2 * classifier.first.weight.square().sum()
        if not isinstance(propagated, Tensor):
            _, steps, remainder = propagated
            loss = loss + model.penalty * (steps + remainder)[train].mean()
        return loss, output

    def step() -> None:
        classifier.train()
        optimizer.zero_grad()
        loss_and_output()[0].backward()
        optimizer.step()

    @torch.no_grad()
    def evaluate() -> object:
        classifier.eval()
        loss, output = loss_and_output()
        correct = output[stopping].argmax(1) == y[stopping]
        return loss, functional.cross_entropy(output[stopping], y[stopping]), correct.float().mean()

    return Baseline(step, evaluate)
