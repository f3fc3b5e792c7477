"""From two tables to a table of predictions, in Python; `apgcn fit` and `apgcn predict` do the same.

`python examples/1_two_tables.py FOLDER` keeps the tables, the model and the predictions in a new folder.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import apgcn


def write_tables(folder: Path) -> None:
    """Cora as edges.csv and nodes.csv: ids of papers, the 500 most frequent words, a topic for one paper in five."""
    cora = apgcn.load("cora")
    ids, (source, target) = np.array(cora.node_names), cora.adjacency.nonzero()
    pd.DataFrame({"source": ids[source], "target": ids[target]}).to_csv(folder / "edges.csv", index=False)

    is_labelled = np.random.default_rng(0).random(cora.num_nodes) <= 0.2
    topics = np.where(is_labelled, np.array(cora.class_names)[cora.labels], "")
    has_word = cora.features.toarray() > 0
    frequent = np.argsort(-has_word.sum(axis=0), kind="stable")[:500]
    features = pd.DataFrame(has_word[:, frequent].astype(int)).add_prefix("word_")
    pd.concat([pd.DataFrame({"id": ids, "topic": topics}), features], axis=1).to_csv(folder / "nodes.csv", index=False)


def main(folder: Path) -> float:
    folder.mkdir(parents=True)
    write_tables(folder)
    edges, nodes = pd.read_csv(folder / "edges.csv"), pd.read_csv(folder / "nodes.csv")

    model = apgcn.fit(edges, nodes, label="topic")
    print(model.leaderboard[["title", "accuracy", "low", "high"]].round(3))
    print(*model.advice, *model.notes, sep="\n")

    model.save(folder / "model")
    predictions = apgcn.load_model(folder / "model").predict()
    predictions.to_csv(folder / "predictions.csv", index=False)
    print(predictions.head(3))
    return float(model.leaderboard["accuracy"][model.leaderboard["chosen"]].item())


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary) / "cora")
