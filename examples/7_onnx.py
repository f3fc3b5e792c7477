"""A trained model in another runtime: ONNX, asked about a graph of another size."""

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


def main() -> float:
    graph = clean(load("cora"))
    fitted = fit(graph, stratified_split(graph.labels), APGCNConfig(), TrainingConfig(max_epochs=30), initialisations=2)
    part = subgraph(graph, np.arange(500))
    links = part.adjacency.tocoo()
    with TemporaryDirectory() as folder:
        write_onnx(Path(folder) / "model.onnx", fitted)
        session = onnxruntime.InferenceSession(Path(folder) / "model.onnx")
        probabilities, steps = session.run(
            None,
            {
                "x": part.features.toarray(),
                "edge_index": np.stack([links.row, links.col]).astype(np.int64),
                "edge_weight": links.data,
            },
        )
    said = fitted.predict(part)
    print(f"{len(steps)} nodes, K {steps.mean():.2f}, the same steps: {np.array_equal(steps, said.steps)}")
    return float(np.abs(probabilities - said.probabilities).max())


if __name__ == "__main__":
    main()
