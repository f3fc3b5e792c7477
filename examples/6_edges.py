"""Classify edges: pair what their two ends heard. Here: do two papers that cite each other have the same topic?"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn import clean, load
from apgcn.io.pyg import to_pyg
from apgcn.nn import APGCN


class EdgeClassifier(nn.Module):
    """AP-GCN gives every node a state; an edge is judged by the product and the distance of its ends' states."""

    def __init__(self, features: int, channels: int = 32):
        super().__init__()
        self.nodes = APGCN(features, 64, channels, max_steps=5)
        self.pair = nn.Linear(2 * channels, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        out, steps, remainder = self.nodes(x, edge_index, edge_weight, return_steps=True)
        one, other = out[pairs[0]], out[pairs[1]]
        return self.pair(torch.cat([one * other, (one - other).abs()], dim=-1)), (steps + remainder).mean()


def main() -> float:
    torch.manual_seed(0)
    data = to_pyg(clean(load("cora")))
    pairs = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    pairs = pairs[:, torch.randperm(pairs.shape[1])]
    same = (data.y[pairs[0]] == data.y[pairs[1]]).long()
    train, test = slice(0, 2500), slice(2500, None)
    common = (data.x[data.edge_index[0]] > 0) & (data.x[data.edge_index[1]] > 0)
    weight = 1.0 + common.sum(1)  # papers that share words hear each other better

    model = EdgeClassifier(data.num_features)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    rare = len(same[train]) / torch.bincount(same[train])  # four of five edges connect papers of one topic
    for _ in range(60):
        optimizer.zero_grad()
        out, cost = model(data.x, data.edge_index, weight, pairs[:, train])
        (functional.cross_entropy(out, same[train], weight=rare) + 0.001 * cost).backward()
        optimizer.step()
    model.eval()
    out, _ = model(data.x, data.edge_index, weight, pairs[:, test])
    right = out.argmax(-1) == same[test]
    balanced = (right[same[test] == 0].float().mean() + right[same[test] == 1].float().mean()).item() / 2
    print(f"{100 * balanced:.1f} % of {len(right)} edges not trained on, the mean over both kinds; 50 % is guessing")
    return balanced


if __name__ == "__main__":
    main()
