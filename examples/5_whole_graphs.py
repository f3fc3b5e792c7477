"""Classify whole graphs: pool what their nodes heard. The weights of edges decide, so a node must listen to them.

In every graph half of the nodes carry a mark, and edges are drawn blindly. In graphs of one class the heavy edges are
those between alike nodes, in graphs of the other those between a marked and an unmarked one. Without weights nothing
tells them apart.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn.nn import AdaptivePropagation

NODES = 12


def make_graph(kind: int) -> tuple[Tensor, Tensor, Tensor]:
    """Marks (nodes, 1), edges (2, edges) and their weights (edges,)."""
    mark = torch.arange(NODES) < NODES // 2
    mark = mark[torch.randperm(NODES)]
    pairs = torch.combinations(torch.arange(NODES))
    pairs = pairs[torch.rand(len(pairs)) < 0.4]
    heavy = (mark[pairs[:, 0]] == mark[pairs[:, 1]]) == bool(kind)
    weight = torch.where(heavy, 3.0, 0.3)
    return mark[:, None].float(), torch.cat([pairs, pairs.flip(1)]).T, weight.repeat(2)


def make_batch(graphs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Graphs side by side, as one graph of many components."""
    kinds = torch.randint(2, (graphs,))
    made = [make_graph(kind) for kind in kinds.tolist()]
    edges = torch.cat([edges + number * NODES for number, (_, edges, _) in enumerate(made)], dim=1)
    return torch.cat([x for x, _, _ in made]), edges, torch.cat([weight for _, _, weight in made]), kinds


class GraphClassifier(nn.Module):
    """Nodes listen as far as they want; the mean of what they heard, and of its square, describes the graph."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.enter = nn.Linear(1, channels)
        self.propagate = AdaptivePropagation(channels, max_steps=4)
        self.leave = nn.Sequential(nn.Linear(2 * channels, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> tuple[Tensor, Tensor]:
        out, steps, remainder = self.propagate(self.enter(x), edge_index, edge_weight, return_steps=True)
        out = out.view(-1, NODES, out.shape[-1])  # graphs of equal size; else torch_geometric.nn.global_mean_pool
        pooled = torch.cat([out.mean(1), out.square().mean(1)], dim=-1)
        return self.leave(pooled), (steps + remainder).mean()


def main(use_weights: bool = True) -> float:
    torch.manual_seed(0)
    model = GraphClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        x, edge_index, weight, kinds = make_batch(64)
        optimizer.zero_grad()
        out, cost = model(x, edge_index, weight if use_weights else torch.ones_like(weight))
        (functional.cross_entropy(out, kinds) + 0.001 * cost).backward()
        optimizer.step()
    x, edge_index, weight, kinds = make_batch(500)
    out, _ = model(x, edge_index, weight if use_weights else torch.ones_like(weight))
    accuracy = (out.argmax(-1) == kinds).float().mean().item()
    print(f"{100 * accuracy:.1f} % of {len(kinds)} new graphs {'with' if use_weights else 'without'} edge weights")
    return accuracy


if __name__ == "__main__":
    main()
    main(use_weights=False)
