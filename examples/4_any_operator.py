"""Every node decides how far to listen, here to the mean of its neighbours: any convolution that keeps the number of
channels can be halted, with weights of its own or without."""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SimpleConv

from apgcn import clean, load
from apgcn.data.splits import split_for_test
from apgcn.io.pyg import to_pyg
from apgcn.nn import AdaptivePropagation


class MeanUntilEnough(nn.Module):
    """Two layers at every node, then the mean over the neighbourhood, again, until a node has heard enough."""

    def __init__(self, features: int, classes: int):
        super().__init__()
        self.enter, self.leave = nn.Linear(features, 64), nn.Linear(64, classes)
        mean = SimpleConv(aggr="mean", combine_root="self_loop")  # or GATConv(classes, classes), ...
        self.propagate = AdaptivePropagation(classes, operator=mean)

    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = functional.dropout(x, 0.5, training=self.training)
        x = functional.dropout(self.enter(x).relu(), 0.5, training=self.training)
        return self.propagate(self.leave(x), edge_index, return_steps=True)


def main(price: float) -> tuple[float, float]:
    torch.manual_seed(0)
    graph = clean(load("cora"))
    data, split = to_pyg(graph), split_for_test(graph.labels, seed=0)
    train, test = torch.tensor(split.train), torch.tensor(split.test)
    model = MeanUntilEnough(data.num_features, graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(100):
        optimizer.zero_grad()
        out, steps, remainder = model(data.x, data.edge_index)
        loss = functional.cross_entropy(out[train], data.y[train])
        (loss + price * (steps + remainder)[train].mean()).backward()
        optimizer.step()
    model.eval()
    out, steps, _ = model(data.x, data.edge_index)
    accuracy = (out.argmax(-1)[test] == data.y[test]).float().mean().item()
    mean = steps.float().mean().item()
    print(f"a step costs {price}: {100 * accuracy:.1f} % of {len(test)} test nodes, K {mean:.2f}")
    return accuracy, mean


if __name__ == "__main__":
    main(0.005)
    main(0.05)
