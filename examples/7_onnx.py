"""Export a trained model to ONNX and run it with onnxruntime, on a graph of another size."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime

from apgcn import clean, load
from apgcn.data.transforms import subgraph
from apgcn.inference.fit import fit
from apgcn.inference.onnx import write_onnx
from apgcn.inference.splits import stratified_split
from apgcn.models.apgcn import APGCNConfig
from apgcn.training.config import TrainingConfig


def main() -> tuple[float, float]:
    graph = clean(load("cora"))
    split = stratified_split(graph.labels, test_size=0.2)
    model = fit(graph, split, APGCNConfig(), TrainingConfig(patience=30))
    accuracy = model.metrics["test"]["accuracy"]
    print(f"accuracy {100 * accuracy:.1f} % on {len(split.test)} test nodes")
    smaller = subgraph(graph, np.arange(500))
    edges = smaller.adjacency.tocoo()
    with TemporaryDirectory() as folder:
        write_onnx(Path(folder) / "model.onnx", model)
        session = onnxruntime.InferenceSession(Path(folder) / "model.onnx")
        probabilities, steps = session.run(
            None,
            {
                "x": smaller.features.toarray(),
                "edge_index": np.stack([edges.row, edges.col]).astype(np.int64),
                "edge_weight": edges.data,
            },
        )
    predictions = model.predict(smaller)
    print(f"{len(steps)} nodes, K {steps.mean():.2f}, equal steps: {np.array_equal(steps, predictions.steps)}")
    return accuracy, float(np.abs(probabilities - predictions.probabilities).max())


if __name__ == "__main__":
    main()
