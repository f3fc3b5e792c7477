"""Outputs of a training: the summary over runs, and the files of `apgcn train --out`."""

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
from apgcn._utils.atomic import named_errors, write_bytes
from apgcn._utils.significance import bootstrap_half_width
from apgcn.data.splits import SET_NAMES
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
    threads: int,
    seconds: float,
) -> dict[str, Any]:
    """Means, spreads and provenance of runs, as JSON values: what `apgcn train --json` prints.

    `accuracy_ci95` is the half-width of a 95 % bootstrap interval over runs, None for one run. A graph of two classes
    has `roc_auc_mean` and `roc_auc_ci95`, too. `steps_histogram` counts nodes of all runs by K = 1..T, from K = 0 where
    `min_steps` is 0; `diverged` counts runs whose loss was never finite.
    """
    accuracies = [result.test_accuracy for result in results if len(result.run.split.test)]
    roc_aucs = [result.roc_auc(result.run.split.test) for result in results if len(result.run.split.test)]
    two_classes = results[0].logits.shape[1] == 2 and len(roc_aucs) > 0 and bool(np.isfinite(roc_aucs).all())
    roc_auc = {"roc_auc_mean": float(np.mean(roc_aucs)), "roc_auc_ci95": bootstrap_half_width(roc_aucs)}
    steps = np.concatenate([result.steps for result in results])
    return {
        "dataset": results[0].run.dataset,
        "model": model.name,
        "runs": len(results),
        "accuracy_mean": float(np.mean(accuracies)) if accuracies else None,
        "accuracy_ci95": bootstrap_half_width(accuracies),
        **(roc_auc if two_classes else {}),
        "steps_mean": float(steps.mean()),
        "steps_std": float(steps.std()),
        "steps_histogram": model.steps_histogram(steps),
        "diverged": sum(result.best_epoch == 0 for result in results),
        "epochs_mean": float(np.mean([result.epochs for result in results])),
        "seconds": seconds,
        "device": str(device),
        "hardware": hardware(device),
        "threads": threads if device.type == "cpu" else None,
        "hyperparameters": {**vars(model), **(vars(training) if model.has_weights else {})},
        "versions": versions(),
        "each_run": [_run_summary(result) for result in results],
    }


def versions() -> dict[str, str]:
    """The versions that a result depends on, including those of installed kernel compilers."""
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


def _run_summary(result: RunResult) -> dict[str, Any]:
    split = result.run.split
    accuracies = {name: result.accuracy(getattr(split, name)) for name in SET_NAMES}
    roc_auc = result.roc_auc(split.test)
    return {
        "split": split.seed,
        "init": result.run.init,
        **{f"{name}_accuracy": None if math.isnan(value) else value for name, value in accuracies.items()},
        **({} if math.isnan(roc_auc) else {"test_roc_auc": roc_auc}),
        "steps_mean": float(result.steps.mean()),
        "best_epoch": result.best_epoch,
        "epochs": result.epochs,
    }


def save(folder: Path, results: Sequence[RunResult], summary: Mapping[str, Any]) -> None:
    """Write the outputs of a training into an existing folder.

    summary.json          what `apgcn train --json` prints
    weights.safetensors   the best weights, run axis first
    nodes.npz             logits, steps and remainder of shape (runs, nodes, ...); labels (nodes,); and sets (runs,
                          nodes), the index in `set_names` of each node's set, -1 for none
    history.csv           one line per run and epoch, see `History`
    """
    from safetensors.torch import save as to_bytes

    write_bytes(folder / "summary.json", f"{json.dumps(summary, indent=1)}\n".encode())
    names = results[0].weights
    weights = {name: torch.cat([result.weights[name] for result in results]) for name in names}
    write_bytes(folder / "weights.safetensors", to_bytes(weights))
    with named_errors(folder / "nodes.npz"):
        np.savez(
            folder / "nodes.npz",
            logits=np.stack([result.logits for result in results]),
            steps=np.stack([result.steps for result in results]),
            remainder=np.stack([result.remainder for result in results]),
            labels=results[0].labels,
            sets=np.stack([_set_index(result) for result in results]),
            set_names=np.array(SET_NAMES),
        )
    path = folder / "history.csv"
    with named_errors(path), path.open("w", newline="", encoding="utf-8") as file:
        columns = list(vars(results[0].history))
        table = csv.writer(file)
        table.writerow(["run", "epoch", *columns])
        for index, result in enumerate(results):
            rows = zip(*(getattr(result.history, column).tolist() for column in columns), strict=True)
            table.writerows([index, epoch, *row] for epoch, row in enumerate(rows, start=1))


def _set_index(result: RunResult) -> np.ndarray:
    """Index in `SET_NAMES` of the set of each node, -1 for none."""
    sets = np.full(len(result.labels), -1, dtype=np.int8)
    for index, name in enumerate(SET_NAMES):
        sets[getattr(result.run.split, name)] = index
    return sets
