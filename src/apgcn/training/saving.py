"""What is kept of a training? A summary, the weights, what every node got, and how each run went."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from apgcn.splits import SETS
from apgcn.training.result import RunResult


def save(folder: Path, results: Sequence[RunResult], summary: Mapping[str, Any]) -> None:
    """Write a training into an existing folder.

    summary.json          what `apgcn train --json` prints
    weights.safetensors   the best weights, run axis first
    nodes.npz             logits, steps and remainder of shape (runs, nodes, ...); labels (nodes,); and sets (runs,
                          nodes), which says where in `set_names` a node's set stands, -1 for none
    history.csv           one line per run and epoch, see `History`
    """
    from safetensors.torch import save as as_bytes

    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    names = results[0].weights
    weights = {name: torch.cat([result.weights[name] for result in results]) for name in names}
    (folder / "weights.safetensors").write_bytes(as_bytes(weights))
    np.savez(
        folder / "nodes.npz",
        logits=np.stack([result.logits for result in results]),
        steps=np.stack([result.steps for result in results]),
        remainder=np.stack([result.remainder for result in results]),
        labels=results[0].labels,
        sets=np.stack([_sets(result) for result in results]),
        set_names=np.array(SETS),
    )
    with (folder / "history.csv").open("w", newline="", encoding="utf-8") as file:
        columns = list(vars(results[0].history))
        table = csv.writer(file)
        table.writerow(["run", "epoch", *columns])
        for number, result in enumerate(results):
            rows = zip(*(getattr(result.history, column).tolist() for column in columns), strict=True)
            table.writerows([number, epoch, *row] for epoch, row in enumerate(rows, start=1))


def _sets(result: RunResult) -> np.ndarray:
    """Which set of the split each node is in."""
    sets = np.full(len(result.labels), -1, dtype=np.int8)
    for number, name in enumerate(SETS):
        sets[getattr(result.run.split, name)] = number
    return sets
