"""From two tables to a table of predictions, in Python; `apgcn fit` and `apgcn predict` do the same."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from apgcn import load
from apgcn.inference.bundle import ModelBundle, load_model, save_model
from apgcn.inference.fit import fit
from apgcn.inference.predictions import write_predictions
from apgcn.inference.splits import stratified_split
from apgcn.io.csv import write_csv
from apgcn.io.graph_builder import build_graph
from apgcn.io.registry import read_table
from apgcn.io.schema import TableSchema
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig


def write_tables(folder: Path) -> None:
    """Cora as two tables: ids of papers, their words, and a topic for one in five."""
    cora = load("cora")
    ids, edges = cora.node_names, cora.adjacency.tocoo()
    write_csv(
        folder / "edges.csv",
        ["source", "target"],
        ((ids[i], ids[j]) for i, j in zip(edges.row, edges.col, strict=True)),
    )
    is_labelled = np.random.default_rng(0).random(cora.num_nodes) < 0.2
    topics = [cora.class_names[label] if shown else "" for label, shown in zip(cora.labels, is_labelled, strict=True)]
    word_counts = cora.features.toarray().astype(int)
    header = ["id", "topic", *(f"word {number}" for number in range(cora.num_features))]
    write_csv(folder / "nodes.csv", header, ([*row[:2], *row[2]] for row in zip(ids, topics, word_counts, strict=True)))


def main() -> float:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder)
        schema = TableSchema(label="topic")
        loaded = build_graph(read_table(folder / "edges.csv"), read_table(folder / "nodes.csv"), schema, name="papers")
        print(*loaded.notes, sep="\n")

        split = stratified_split(loaded.graph.labels, test_size=0.2)
        model = fit(loaded.graph, split, APGCNConfig(), TrainingConfig(patience=50))
        accuracy = model.metrics["test"]["accuracy"]
        print(f"accuracy {100 * accuracy:.1f} % on {len(split.test)} test nodes")

        save_model(folder / "model", ModelBundle(model, loaded.graph, loaded.encoding, schema))
        bundle = load_model(folder / "model")
        predictions = bundle.model.predict(bundle.graph)
        write_predictions(folder / "predictions.csv", bundle.graph, predictions, bundle.model.class_names)
        print(*(folder / "predictions.csv").read_text().splitlines()[:4], sep="\n")
        return accuracy


if __name__ == "__main__":
    main()
