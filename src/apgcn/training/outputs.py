"""What do the runs say together? The numbers behind a printed line or a JSON object."""

from __future__ import annotations

import csv
import json
import math
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from apgcn import __version__
from apgcn._utils.significance import bootstrap_half_width
from apgcn.data.splits import SETS
from apgcn.models.base import ModelConfig
from apgcn.ops.devices import hardware
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import RunResult


def summarize(
    results: Sequence[RunResult],
    model: ModelConfig,
    training: TrainingConfig,
    *,
    device: torch.device,
    seconds: float,
) -> dict[str, Any]:
    """Means, spreads and everything needed to trust them, as plain JSON values.

    `accuracy_ci95` is the half-width of a 95 % bootstrap interval over runs, null for one run. `steps_histogram`
    counts nodes of all runs by K = 1..T; `diverged` counts runs whose loss was never finite.
    """
    accuracies = [result.test_accuracy for result in results if len(result.run.split.test)]
    steps = np.concatenate([result.steps for result in results])
    return {
        "dataset": results[0].run.dataset,
        "model": model.name,
        "runs": len(results),
        "accuracy_mean": float(np.mean(accuracies)) if accuracies else None,
        "accuracy_ci95": bootstrap_half_width(accuracies),
        "steps_mean": float(steps.mean()),
        "steps_std": float(steps.std()),
        "steps_histogram": np.bincount(steps, minlength=model.max_steps + 1)[1:].tolist(),
        "diverged": sum(result.best_epoch == 0 for result in results),
        "epochs_mean": float(np.mean([result.epochs for result in results])),
        "seconds": seconds,
        "device": str(device),
        "hardware": hardware(device),
        "threads": 1 if device.type == "cpu" else None,  # see `packs.train`
        "settings": {**vars(model), **(vars(training) if model.has_weights else {})},
        "versions": versions(),
        "each_run": [_line(result) for result in results],
    }


def versions() -> dict[str, str]:
    """The versions a result depends on: of what compiles loops, too, where it is installed."""
    compilers = {name: metadata.version(name) for name in _compilers() if find_spec(name)}
    return {
        "apgcn": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        **compilers,
    }


def _compilers() -> tuple[str, ...]:
    return ("numba", "triton") if torch.cuda.is_available() else ("numba",)


def _line(result: RunResult) -> dict[str, Any]:
    split = result.run.split
    scores = {name: result.accuracy(getattr(split, name)) for name in ("train", "stopping", "validation", "test")}
    return {
        "split": split.seed,
        "init": result.run.init,
        **{f"{name}_accuracy": None if math.isnan(score) else score for name, score in scores.items()},
        "steps_mean": float(result.steps.mean()),
        "best_epoch": result.best_epoch,
        "epochs": result.epochs,
    }


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
