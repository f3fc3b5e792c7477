"""What do the runs say together? The numbers behind a printed line or a JSON object."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy
import torch

from apgcn import __version__
from apgcn.devices import hardware
from apgcn.models.network import ModelSettings
from apgcn.statistics import bootstrap_half_width
from apgcn.training.result import RunResult
from apgcn.training.settings import TrainingSettings


def summarize(
    results: Sequence[RunResult],
    model: ModelSettings,
    training: TrainingSettings,
    *,
    device: torch.device,
    seconds: float,
) -> dict[str, Any]:
    """Means, spreads and everything needed to trust them, as plain JSON values.

    `accuracy_interval` is the half-width of a 95 % bootstrap interval over runs, null for one run. `steps_histogram`
    counts nodes of all runs by K = 1..T; `diverged` counts runs whose loss was never finite.
    """
    accuracies = [result.test_accuracy for result in results if len(result.run.split.test)]
    steps = np.concatenate([result.steps for result in results])
    return {
        "dataset": results[0].run.dataset,
        "model": model.name,
        "runs": len(results),
        "accuracy_mean": float(np.mean(accuracies)) if accuracies else None,
        "accuracy_interval": bootstrap_half_width(accuracies),
        "steps_mean": float(steps.mean()),
        "steps_deviation": float(steps.std()),
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
        "initialisation": result.run.initialisation,
        **{f"{name}_accuracy": None if math.isnan(score) else score for name, score in scores.items()},
        "steps_mean": float(result.steps.mean()),
        "best_epoch": result.best_epoch,
        "epochs": result.epochs,
    }
