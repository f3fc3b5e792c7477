"""How long do many trainings take, from the start of the workers to the end of the last run?"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from apgcn.benchmark.executors import Executor, ProcessExecutor, Report, SerialExecutor
from apgcn.benchmark.graph_cache import cleaned
from apgcn.ops.devices import peak_memory, resolve
from apgcn.training.batching import evenly, train
from apgcn.training.config import preset_config
from apgcn.training.runs import benchmark_runs


@dataclass(frozen=True)
class Whole:
    """Runs of AP-GCN with the paper's settings, trained until each has stopped.

    `memory` is the most that was taken, in bytes: of the GPU, or of the largest worker.
    """

    dataset: str
    runs: int
    workers: int
    seconds: float
    epochs_mean: float
    epochs_max: int
    accuracy_mean: float
    memory: int


def timed_trainings(dataset: str, runs: int, *, device: str, workers: int) -> Whole:
    """Train them: on a GPU as one pack if they fit, on a processor shared by so many workers, a thread each."""
    if resolve(device).type == "cuda":
        workers = 1
    parts = evenly(range(runs), most=-(-runs // workers))
    cleaned(dataset)
    started = time.perf_counter()
    executor: Executor = SerialExecutor() if workers == 1 else ProcessExecutor(workers)
    items = [(dataset, numbers, device) for numbers in parts]
    found = [outcome for _, outcome in executor.run(_trained, items, lambda item, share: None)]
    seconds = time.perf_counter() - started
    epochs = np.concatenate([one[0] for one in found])
    accuracies = np.concatenate([one[1] for one in found])
    return Whole(
        dataset=dataset,
        runs=runs,
        workers=workers,
        seconds=seconds,
        epochs_mean=float(epochs.mean()),
        epochs_max=int(epochs.max()),
        accuracy_mean=float(accuracies.mean()),
        memory=max(one[2] for one in found),
    )


def _trained(part: tuple[str, list[int], str], report: Report) -> tuple[np.ndarray, np.ndarray, int]:
    """Epochs and accuracies of some of the runs, and the most memory that was taken."""
    dataset, numbers, device = part
    graph = cleaned(dataset)
    runs = benchmark_runs(graph, numbers[-1] + 1)
    on_gpu = resolve(device).type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    results = train(graph, [runs[number] for number in numbers], *preset_config(dataset), device=device)
    taken = torch.cuda.max_memory_reserved(device) if on_gpu else peak_memory()
    epochs, accuracies = ([getattr(one, name) for one in results] for name in ("epochs", "test_accuracy"))
    return np.array(epochs), np.array(accuracies), taken


TRIES = 3  # the quickest counts


class Starting(NamedTuple):
    """Seconds of `import apgcn`, which imports nothing else before it is used, and of using every name in it."""

    importing: float
    everything: float
    of_which_torch: float


def timed_start() -> Starting:
    """Import in new processes; what an empty one takes is not counted."""
    everything = "import apgcn; [getattr(apgcn, name) for name in apgcn.__all__]"
    empty, *seconds = (_quickest(code) for code in ("", "import apgcn", everything, "import torch"))
    return Starting(*(max(0.0, one - empty) for one in seconds))


def _quickest(code: str) -> float:
    return min(_seconds(code) for _ in range(TRIES))


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started
