"""From two tables to a table of predictions, in Python; `apgcn train` and `apgcn predict` do the same."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from apgcn import load
from apgcn.inference.bundle import SavedModel, load_model, save_model
from apgcn.inference.fit import fit
from apgcn.inference.predictions import write_predictions
from apgcn.inference.splits import stratified_split
from apgcn.io.build_graph import TableSchema, build_graph
from apgcn.io.csv import write_csv
from apgcn.io.registry import read_table
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig


def write_tables(folder: Path) -> None:
    """Cora as a user would have it: ids of papers, their words, and a topic that one in five has."""
    cora = load("cora")
    ids, links = cora.node_names, cora.adjacency.tocoo()
    write_csv(
        folder / "edges.csv",
        ["source", "target"],
        ((ids[i], ids[j]) for i, j in zip(links.row, links.col, strict=True)),
    )
    known = np.random.default_rng(0).random(cora.num_nodes) < 0.2
    topics = [cora.class_names[label] if one else "" for label, one in zip(cora.labels, known, strict=True)]
    words = cora.features.toarray().astype(int)
    header = ["id", "topic", *(f"word {number}" for number in range(cora.num_features))]
    write_csv(folder / "nodes.csv", header, ([*row[:2], *row[2]] for row in zip(ids, topics, words, strict=True)))


def main() -> float:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        schema = TableSchema(label="topic")
        read = build_graph(read_table(folder / "edges.csv"), read_table(folder / "nodes.csv"), schema, name="papers")
        print(*read.notes, sep="\n")

        split = stratified_split(read.graph.labels, test=0.2)
        fitted = fit(read.graph, split, APGCNConfig(), TrainingConfig())
        print(f"{100 * fitted.notes['test']['accuracy']:.1f} % of {len(split.test)} test nodes")

        save_model(folder / "model", SavedModel(fitted, read.graph, read.encoding, schema))
        saved = load_model(folder / "model")
        said = saved.fitted.predict(saved.graph)
        write_predictions(folder / "predictions.csv", saved.graph, said, saved.fitted.class_names)
        print(*(folder / "predictions.csv").read_text().splitlines()[:4], sep="\n")
        return fitted.notes["test"]["accuracy"]


if __name__ == "__main__":
    main()
