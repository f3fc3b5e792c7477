"""A training loop as in PyTorch Geometric; the propagation penalty is one more line."""

import torch
from torch.nn import functional

from apgcn import clean, load
from apgcn.data.splits import split_for_test
from apgcn.io.pyg import to_pyg
from apgcn.nn import APGCN


def main() -> float:
    torch.manual_seed(0)
    graph = clean(load("cora"))
    data, split = to_pyg(graph), split_for_test(graph.labels, seed=0)
    train, test = torch.tensor(split.train), torch.tensor(split.test)
    model = APGCN(data.num_features, 64, graph.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)

    for epoch in range(1, 101):
        model.train()
        optimizer.zero_grad()
        out, steps, remainder = model(data.x, data.edge_index, return_steps=True)
        loss = functional.cross_entropy(out[train], data.y[train])
        loss = loss + 0.005 * (steps + remainder)[train].mean()
        loss.backward()
        optimizer.step()
        if epoch % 25 == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, K {steps.float().mean():.2f}")

    model.eval()
    predicted = model(data.x, data.edge_index).argmax(-1)
    accuracy = (predicted[test] == data.y[test]).float().mean().item()
    print(f"{100 * accuracy:.1f} % of {len(test)} test nodes")
    return accuracy


if __name__ == "__main__":
    main()
