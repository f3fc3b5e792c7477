"""Adaptive propagation with another operator, here the mean over the neighbourhood.

Any convolution that keeps the number of channels can be the propagation step, with weights or without.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SimpleConv

from apgcn import clean, load
from apgcn.data.splits import split_for_test
from apgcn.io.pyg import to_pyg
from apgcn.nn import APGCNConv


class AdaptiveMean(nn.Module):
    """A two-layer MLP at every node, then the mean over the neighbourhood, repeated until the node halts."""

    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.lin1, self.lin2 = nn.Linear(in_channels, 64), nn.Linear(64, out_channels)
        mean = SimpleConv(aggr="mean", combine_root="self_loop")  # or GATConv(out_channels, out_channels), ...
        self.propagate = APGCNConv(out_channels, operator=mean)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = functional.dropout(x, 0.5, training=self.training)
        x = functional.dropout(self.lin1(x).relu(), 0.5, training=self.training)
        return self.propagate(self.lin2(x), edge_index, return_steps=True)


def main(penalty: float) -> tuple[float, float]:
    torch.manual_seed(0)
    graph = clean(load("cora"))
    data, split = to_pyg(graph), split_for_test(graph.labels, seed=0)
    train, test = torch.tensor(split.train), torch.tensor(split.test)
    model = AdaptiveMean(data.num_features, graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(100):
        optimizer.zero_grad()
        out, steps, remainder = model(data.x, data.edge_index)
        loss = functional.cross_entropy(out[train], data.y[train])
        (loss + penalty * (steps + remainder)[train].mean()).backward()
        optimizer.step()
    model.eval()
    out, steps, _ = model(data.x, data.edge_index)
    accuracy = (out.argmax(-1)[test] == data.y[test]).float().mean().item()
    mean_steps = steps.float().mean().item()
    print(f"penalty {penalty}: {100 * accuracy:.1f} % of {len(test)} test nodes, K {mean_steps:.2f}")
    return accuracy, mean_steps


if __name__ == "__main__":
    main(0.005)
    main(0.05)
