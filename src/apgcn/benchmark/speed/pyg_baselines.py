"""What is it compared with? The same model, and APPNP, as one writes them with stock PyTorch Geometric.

Dense features, one run at a time, `dropout_edge` and `gcn_norm` at every step. APPNP goes without edge dropout, which
PyTorch Geometric's layer does in another way than the paper (its issue 10783), and normalises once (`cached=True`).
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


class Peer(NamedTuple):
    """A training step and an evaluation."""

    step: Callable[[], None]
    evaluate: Callable[[], object]


def peers(
    graph: Graph, run: Run, model: APGCNConfig, training: TrainingConfig, *, device: torch.device
) -> dict[str, Peer]:
    """`pyg_apgcn` and `pyg_appnp` on a graph, none where PyTorch Geometric is not installed."""
    try:
        import torch_geometric  # noqa: F401
    except ImportError:
        return {}
    from torch_geometric.nn import APPNP

    sizes = graph.num_features, model.hidden_channels, graph.num_classes
    listening = _halting(graph.num_classes, model)
    page_rank = APPNP(K=model.max_steps, alpha=0.1, dropout=0.0, cached=True)
    return {
        "pyg_apgcn": _peer(_Network(*sizes, model.dropout, listening), graph, run, model, training, device=device),
        "pyg_appnp": _peer(_Network(*sizes, model.dropout, page_rank), graph, run, model, training, device=device),
    }


class _Network(nn.Module):
    def __init__(self, features: int, hidden_channels: int, classes: int, dropout: float, propagation: nn.Module):
        super().__init__()
        self.first, self.second = nn.Linear(features, hidden_channels), nn.Linear(hidden_channels, classes)
        self.dropout, self.propagation = dropout, propagation

    def forward(self, x: Tensor, edge_index: Tensor):
        x = functional.dropout(x, self.dropout, self.training)
        x = functional.dropout(self.first(x).relu(), self.dropout, self.training)
        return self.propagation(self.second(x), edge_index)


def _halting(classes: int, hyperparameters: APGCNConfig) -> nn.Module:
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.utils import dropout_edge

    class Halting(MessagePassing):
        """Step by step, every node at every step; output, K and R."""

        def __init__(self):
            super().__init__(aggr="add")
            self.unit = nn.Linear(classes, 1)
            nn.init.constant_(self.unit.bias, -math.log(hyperparameters.max_steps))

        def forward(self, x: Tensor, edge_index: Tensor):
            steps, filled, listens = x.new_ones(len(x)), x.new_zeros(len(x)), x.new_ones(len(x), dtype=torch.bool)
            output, remainder = torch.zeros_like(x), x.new_ones(len(x))
            for k in range(1, hyperparameters.max_steps + 1):
                kept, _ = dropout_edge(edge_index, p=hyperparameters.edge_dropout, training=self.training)
                kept, norm = gcn_norm(kept, num_nodes=len(x))
                before, x = x, self.propagate(kept, x=x, norm=norm)
                h = self.unit(x).sigmoid().squeeze(1)
                last = (
                    listens & (filled + h >= 1 - hyperparameters.epsilon) if k < hyperparameters.max_steps else listens
                )
                p = torch.where(last, 1 - filled, filled + h)[:, None]
                output = output + listens[:, None] * (p * x + (1 - p) * before)
                remainder = torch.where(last, 1 - filled, remainder)
                listens = listens & ~last
                filled, steps = torch.where(listens, filled + h, filled), steps + listens
            return output / steps[:, None], steps, remainder

        def message(self, x_j: Tensor, norm: Tensor) -> Tensor:
            return norm[:, None] * x_j

    return Halting()


def _peer(
    network: _Network,
    graph: Graph,
    run: Run,
    model: APGCNConfig,
    training: TrainingConfig,
    *,
    device: torch.device,
) -> Peer:
    network = network.to(device)
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    x = torch.tensor(features, dtype=torch.float32, device=device)
    edge_index = torch.tensor(np.stack(graph.adjacency.nonzero()), dtype=torch.int64, device=device)
    labels = torch.tensor(graph.labels, device=device)
    train, stop = (torch.tensor(nodes, device=device) for nodes in (run.split.train, run.split.stopping))
    optimiser = torch.optim.Adam(network.parameters(), lr=training.learning_rate)

    def objective() -> tuple[Tensor, Tensor]:
        answer = network(x, edge_index)
        output = answer if isinstance(answer, Tensor) else answer[0]
        loss = functional.cross_entropy(output[train], labels[train])
        loss = loss + training.l2 / 2 * network.first.weight.square().sum()
        if not isinstance(answer, Tensor):
            loss = loss + model.penalty * (answer[1] + answer[2])[train].mean()
        return loss, output

    def step() -> None:
        network.train()
        optimiser.zero_grad()
        objective()[0].backward()
        optimiser.step()

    @torch.no_grad()
    def evaluate() -> object:
        network.eval()
        loss, output = objective()
        right = output[stop].argmax(1) == labels[stop]
        return loss, functional.cross_entropy(output[stop], labels[stop]), right.float().mean()

    return Peer(step, evaluate)
