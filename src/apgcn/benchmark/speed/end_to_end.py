"""Wall-clock time of complete trainings, workers' start-up included, and of imports."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from apgcn.benchmark.executors import Executor, ProcessExecutor, ReportProgress, SerialExecutor
from apgcn.benchmark.worker import cleaned_graph
from apgcn.ops.devices import peak_memory, resolve_device
from apgcn.training.batching import split_evenly, train
from apgcn.training.config import preset_config
from apgcn.training.runs import benchmark_runs

IMPORT_REPEATS = 3  # the fastest counts


@dataclass(frozen=True)
class TrainingTime:
    """Seconds and peak memory of AP-GCN runs with the paper's preset, trained until each has stopped.

    `memory` is in bytes: of the GPU, or of the worker with the largest peak.
    """

    dataset: str
    runs: int
    workers: int
    seconds: float
    epochs_mean: float
    epochs_max: int
    accuracy_mean: float
    memory: int


def time_trainings(dataset: str, runs: int, *, device: str, workers: int) -> TrainingTime:
    """Train runs of the protocol: on a GPU in one batch if it fits, on a CPU in `workers` processes of one thread."""
    if resolve_device(device).type == "cuda":
        workers = 1
    run_numbers = split_evenly(range(runs), max_size=-(-runs // workers))
    cleaned_graph(dataset)
    started = time.perf_counter()
    executor: Executor = SerialExecutor() if workers == 1 else ProcessExecutor(workers)
    items = [(dataset, numbers, device) for numbers in run_numbers]
    outcomes = [outcome for _, outcome in executor.run(_train_part, items, lambda item, fraction: None)]
    seconds = time.perf_counter() - started
    epochs = np.concatenate([outcome.epochs for outcome in outcomes])
    accuracies = np.concatenate([outcome.accuracies for outcome in outcomes])
    return TrainingTime(
        dataset=dataset,
        runs=runs,
        workers=workers,
        seconds=seconds,
        epochs_mean=float(epochs.mean()),
        epochs_max=int(epochs.max()),
        accuracy_mean=float(accuracies.mean()),
        memory=max(outcome.memory for outcome in outcomes),
    )


class _Outcome(NamedTuple):
    """Epochs and test accuracies, one per run, and the peak memory in bytes."""

    epochs: np.ndarray
    accuracies: np.ndarray
    memory: int


def _train_part(item: tuple[str, list[int], str], report: ReportProgress) -> _Outcome:
    """Train the runs of one worker."""
    dataset, numbers, device = item
    graph = cleaned_graph(dataset)
    runs = benchmark_runs(graph, numbers[-1] + 1)
    on_gpu = resolve_device(device).type == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    results = train(graph, [runs[number] for number in numbers], *preset_config(dataset), device=device)
    memory = torch.cuda.max_memory_reserved(device) if on_gpu else peak_memory()
    epochs, accuracies = ([getattr(result, name) for result in results] for name in ("epochs", "test_accuracy"))
    return _Outcome(np.array(epochs), np.array(accuracies), memory)


class ImportTime(NamedTuple):
    """Seconds of three imports, each in a new process, without the start of the interpreter.

    `apgcn` is `import apgcn`, which imports nothing else before a name is used; `all_names` uses every public name;
    `torch` is `import torch`, which `all_names` includes.
    """

    apgcn: float
    all_names: float
    torch: float


def time_imports() -> ImportTime:
    """Time the imports in new processes; the time of an empty process is subtracted."""
    all_names = "import apgcn; [getattr(apgcn, name) for name in apgcn.__all__]"
    empty, *seconds = (_fastest(code) for code in ("", "import apgcn", all_names, "import torch"))
    return ImportTime(*(max(0.0, elapsed - empty) for elapsed in seconds))


def _fastest(code: str) -> float:
    return min(_seconds(code) for _ in range(IMPORT_REPEATS))


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started
