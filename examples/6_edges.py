"""Edge classification, by the outputs of the two ends: whether two papers that cite each other have the same topic."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from apgcn import clean, load
from apgcn.io.pyg import to_pyg
from apgcn.nn import APGCN


class EdgeClassifier(nn.Module):
    """AP-GCN embeds every node; an edge is classified by the product and the distance of the embeddings of its ends."""

    def __init__(self, in_channels: int, channels: int = 32):
        super().__init__()
        self.encoder = APGCN(in_channels, 64, channels, max_steps=5)
        self.classifier = nn.Linear(2 * channels, 2)

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        out, steps, remainder = self.encoder(x, edge_index, edge_weight, return_steps=True)
        source, target = out[pairs[0]], out[pairs[1]]
        return self.classifier(torch.cat([source * target, (source - target).abs()], dim=-1)), (
            steps + remainder
        ).mean()


def main() -> float:
    torch.manual_seed(0)
    data = to_pyg(clean(load("cora")))
    pairs = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    pairs = pairs[:, torch.randperm(pairs.shape[1])]
    same = (data.y[pairs[0]] == data.y[pairs[1]]).long()
    train, test = slice(0, 2500), slice(2500, None)
    common = (data.x[data.edge_index[0]] > 0) & (data.x[data.edge_index[1]] > 0)
    weight = 1.0 + common.sum(1)  # papers that share words have a larger edge weight

    model = EdgeClassifier(data.num_features)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    class_weight = len(same[train]) / torch.bincount(same[train])  # four of five edges connect papers of one topic
    for _ in range(60):
        optimizer.zero_grad()
        out, cost = model(data.x, data.edge_index, weight, pairs[:, train])
        (functional.cross_entropy(out, same[train], weight=class_weight) + 0.001 * cost).backward()
        optimizer.step()
    model.eval()
    out, _ = model(data.x, data.edge_index, weight, pairs[:, test])
    correct = out.argmax(-1) == same[test]
    balanced = (correct[same[test] == 0].float().mean() + correct[same[test] == 1].float().mean()).item() / 2
    print(f"{100 * balanced:.1f} % of {len(correct)} edges not trained on, balanced accuracy; 50 % is chance")
    return balanced


if __name__ == "__main__":
    main()
