"""Graph classification: pool the outputs of the nodes. The edge weights determine the class.

In every graph half of the nodes are marked, and edges are drawn at random. In graphs of one class the heavy edges are
those between two nodes of the same mark, in graphs of the other those between a marked and an unmarked node. Without
edge weights the classes cannot be distinguished.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn.nn import APGCNConv

NODES = 12


def make_graph(label: int) -> tuple[Tensor, Tensor, Tensor]:
    """Marks (nodes, 1), edges (2, edges) and their weights (edges,)."""
    mark = torch.arange(NODES) < NODES // 2
    mark = mark[torch.randperm(NODES)]
    pairs = torch.combinations(torch.arange(NODES))
    pairs = pairs[torch.rand(len(pairs)) < 0.4]
    heavy = (mark[pairs[:, 0]] == mark[pairs[:, 1]]) == bool(label)
    weight = torch.where(heavy, 3.0, 0.3)
    return mark[:, None].float(), torch.cat([pairs, pairs.flip(1)]).T, weight.repeat(2)


def make_batch(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A batch of graphs, as one graph of many components."""
    labels = torch.randint(2, (count,))
    graphs = [make_graph(label) for label in labels.tolist()]
    edges = torch.cat([edges + index * NODES for index, (_, edges, _) in enumerate(graphs)], dim=1)
    return torch.cat([x for x, _, _ in graphs]), edges, torch.cat([weight for _, _, weight in graphs]), labels


class GraphClassifier(nn.Module):
    """Adaptive propagation, then the mean of the outputs, and of their squares, over the nodes of the graph."""

    def __init__(self, channels: int = 16):
        super().__init__()
        self.encoder = nn.Linear(1, channels)
        self.propagate = APGCNConv(channels, max_steps=4)
        self.classifier = nn.Sequential(nn.Linear(2 * channels, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> tuple[Tensor, Tensor]:
        out, steps, remainder = self.propagate(self.encoder(x), edge_index, edge_weight, return_steps=True)
        out = out.view(-1, NODES, out.shape[-1])  # graphs of equal size; otherwise torch_geometric.nn.global_mean_pool
        pooled = torch.cat([out.mean(1), out.square().mean(1)], dim=-1)
        return self.classifier(pooled), (steps + remainder).mean()


def main(use_weights: bool = True) -> float:
    torch.manual_seed(0)
    model = GraphClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(150):
        x, edge_index, weight, labels = make_batch(64)
        optimizer.zero_grad()
        out, cost = model(x, edge_index, weight if use_weights else torch.ones_like(weight))
        (functional.cross_entropy(out, labels) + 0.001 * cost).backward()
        optimizer.step()
    x, edge_index, weight, labels = make_batch(500)
    out, _ = model(x, edge_index, weight if use_weights else torch.ones_like(weight))
    accuracy = (out.argmax(-1) == labels).float().mean().item()
    print(f"{100 * accuracy:.1f} % of {len(labels)} new graphs {'with' if use_weights else 'without'} edge weights")
    return accuracy


if __name__ == "__main__":
    main()
    main(use_weights=False)
