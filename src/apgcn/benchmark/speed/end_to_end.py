"""Wall-clock time of complete trainings, which includes the start of workers, and of imports."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.executors import Executor, ProcessExecutor, ReportProgress, SerialExecutor
from apgcn.benchmark.runner import run_plan
from apgcn.benchmark.store import Store
from apgcn.benchmark.worker import cleaned_graph
from apgcn.ops.devices import peak_memory, resolve_device

IMPORT_REPEATS = 3  # the fastest counts


@dataclass(frozen=True)
class TrainingTime:
    """Seconds and peak memory of AP-GCN runs with the paper's preset, trained until each has stopped.

    `threads` counts those of each worker, None on a GPU; `memory` is in bytes: of the GPU, or of the worker with the
    largest peak.
    """

    dataset: str
    runs: int
    workers: int
    threads: int | None
    seconds: float
    epochs_mean: float
    epochs_max: int
    accuracy_mean: float
    memory: int


def time_trainings(dataset: str, runs: int, *, device: str, workers: int, threads: int | None = None) -> TrainingTime:
    """Train the first runs of the protocol: on a GPU in one process, on a CPU in `workers` processes.

    `threads` is the number of threads of each; default: the cores that this process may use, divided by the workers.
    """
    torch_device = resolve_device(device)
    on_gpu = torch_device.type == "cuda"
    if on_gpu:
        workers = 1
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(torch_device)
    executor = _PeakMemoryExecutor(
        SerialExecutor(threads=threads) if workers == 1 else ProcessExecutor(workers, threads=threads)
    )
    plan = RunConfig.from_preset(dataset, "apgcn").first_runs(runs)
    cleaned_graph(dataset)
    with TemporaryDirectory() as folder:
        store = Store(folder)
        started = time.perf_counter()
        run_plan(store, plan, device=device, executor=executor)
        seconds = time.perf_counter() - started
        records = list(store.records.values())
    epochs = [record.epochs for record in records]
    return TrainingTime(
        dataset=dataset,
        runs=runs,
        workers=workers,
        threads=records[0].threads,
        seconds=seconds,
        epochs_mean=float(np.mean(epochs)),
        epochs_max=max(epochs),
        accuracy_mean=float(np.mean([record.test_accuracy for record in records])),
        memory=torch.cuda.max_memory_reserved(torch_device) if on_gpu else executor.peak,
    )


class _PeakMemoryExecutor:
    """An executor that also measures the peak memory of the processes that train, in bytes."""

    def __init__(self, executor: Executor):
        self._executor, self.workers, self.peak = executor, executor.workers, 0

    def call(self, function: Callable[..., Any], run_config: RunConfig, **arguments: Any) -> Any:
        """Call a function with a run configuration."""
        return self._executor.call(function, run_config, **arguments)

    def run(
        self,
        function: Callable[[Any, ReportProgress], Any],
        items: Iterable[Any],
        on_progress: Callable[[Any, float], None],
    ) -> Generator[tuple[Any, Any], None, None]:
        """Call a function with every item."""
        with closing(self._executor.run(partial(_with_peak_memory, function=function), items, on_progress)) as outcomes:
            for item, (outcome, memory) in outcomes:
                self.peak = max(self.peak, memory)
                yield item, outcome


def _with_peak_memory(item: Any, report: ReportProgress, *, function: Callable) -> tuple[Any, int]:
    return function(item, report), peak_memory()


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
