"""Division of runs into batches, by memory and by cost; `train` trains them batch by batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from apgcn._utils.validation import check_number, config_to_python
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import available_memory, resolve_device
from apgcn.ops.dispatch import kernels_for_device
from apgcn.ops.threads import kernel_threads, resolve_threads
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import Run, RunResult, check_run
from apgcn.training.trainer import Progress, expected_patiences, overall_progress, remaining_share, train_batch

MAX_CPU_BATCH = 8  # more gains little on a small graph, and on a large one exceeds the CPU's caches
CPU_SECONDS_PER_FLOAT = 7e-10  # of one thread: 0.6e-9 to 1.6e-9 by benchmarks/README.md, by graph and machine
GPU_SECONDS_PER_FLOAT = 5e-11  # of an H200, with many runs in a batch
FLOATS_PER_THREAD = 1e7  # fewer gain nothing from another thread
MEMORY_FRACTION = 0.6  # of the memory that a run batch may use


def train(
    graph: Graph,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig = TrainingConfig(),
    *,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    time_limit: float | None = None,
) -> list[RunResult]:
    """Train any number of runs, batch by batch, and return their results in the order of the runs.

    Parameters
    ----------
    graph : Graph
    runs : sequence of Run
        See `benchmark_runs`.
    model : ModelConfig
        The hyperparameters of a model, such as `APGCNConfig()`.
    training : TrainingConfig
    device : "cpu", "cuda" or "cuda:N"
    threads : int, optional
        Maximum number of threads of the CPU kernels; default: the cores that this process may use, see
        `ops.threads.resolve_threads`. Where a graph is so small that more threads would be slower, the kernels use
        fewer. The results do not depend on it. PyTorch's own operations use one thread meanwhile.
    progress : function, optional
        Called with a `Progress` after every epoch; on a GPU, which each call waits for, after every tenth.
    time_limit : float, optional
        Seconds after which no epoch begins (on a GPU, where the time is read after every tenth, up to ten more). Each
        run trains for one epoch at least, and has the weights of its best.

    Raises
    ------
    InvalidInput
        If there is no run, or one that does not belong to the graph, or if `threads` is not an integer >= 1.

    Examples
    --------
    >>> from apgcn import APGCNConfig, benchmark_runs, clean, load
    >>> graph = clean(load("cora"))
    >>> result, = train(graph, benchmark_runs(graph, 1), APGCNConfig(), TrainingConfig(max_epochs=3))
    >>> result.logits.shape, result.steps.shape, result.epochs
    ((2485, 7), (2485,), 3)
    """
    runs = _check_arguments(graph, runs, model, training)
    threads = resolve_threads(threads)
    if time_limit is not None:
        check_number("time_limit", time_limit, positive=True)
    return train_runs(
        graph,
        runs,
        model,
        training,
        device=resolve_device(str(device)),
        threads=threads,
        progress=progress,
        time_limit=time_limit,
    )


def train_runs(
    graph: Graph,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    *,
    device: torch.device,
    threads: int,
    progress: Callable[[Progress], None] | None = None,
    time_limit: float | None = None,
) -> list[RunResult]:
    """As `train`, for runs that are known to belong to the graph, and a device and threads that are resolved."""
    model, training = config_to_python(model), config_to_python(training)
    max_size, started = batch_size(graph, model, device, passes=training.passes), time.perf_counter()
    results: dict[int, RunResult] = {}
    with kernel_threads(threads):
        device_graph = DeviceGraph.from_graph(graph, device=device)
        batches = make_batches(runs, max_size=max_size)
        for number, batch in enumerate(batches):
            report = (
                overall_progress(progress, finished=len(results), size=len(batch), total=len(runs))
                if progress
                else None
            )
            batch_results = train_batch(
                device_graph,
                [runs[index] for index in batch],
                model,
                training,
                report,
                time_limit=remaining_share(time_limit, started, left=len(batches) - number),
            )
            results.update(zip(batch, batch_results, strict=True))
    return [results[index] for index in range(len(runs))]


def _check_arguments(graph: Any, runs: Any, model: Any, training: Any) -> list[Run]:
    """Check the arguments of `train`, and return the runs as a list."""
    if not isinstance(graph, Graph):
        raise InvalidInput(f"graph must be a Graph, such as clean(load('cora')), got {type(graph).__name__}.")
    if not isinstance(training, TrainingConfig):
        raise InvalidInput(f"training must be a TrainingConfig, got {training!r}.")
    if not isinstance(model, ModelConfig):
        raise InvalidInput(f"model must be the config of a model, such as APGCNConfig(), got {model!r}.")
    if graph.num_features == 0 or graph.num_classes == 0:
        raise InvalidInput(f"{graph.name} must have at least one feature and one label to be trained on.")
    if isinstance(runs, Run) or not isinstance(runs, Iterable):
        raise InvalidInput(f"runs must be a list of runs, got {runs!r}.")
    runs = list(runs)
    if not runs:
        raise InvalidInput("there must be at least one run to train, got none.")
    for run in runs:
        if not isinstance(run, Run):
            raise InvalidInput(f"runs must hold runs, such as Run(split), got {run!r}.")
        check_run(run, graph)
    return runs


def make_batches(runs: Sequence[Run], *, max_size: int) -> list[list[int]]:
    """Divide runs into as few batches as possible, of nearly equal size; a batch holds positions in `runs`.

    The runs of a batch have equally large training and stopping sets.
    """
    by_set_sizes: dict[tuple[int, int], list[int]] = {}
    for index, run in enumerate(runs):
        by_set_sizes.setdefault((len(run.split.train), len(run.split.stopping)), []).append(index)
    batches = []
    for indices in by_set_sizes.values():
        batches += split_evenly(indices, max_size=max_size)
    return batches


def split_evenly(items: Sequence[Any], *, max_size: int) -> list[list[Any]]:
    """Divide items into as few lists as possible, of nearly equal length, none longer than `max_size`.

    >>> split_evenly("abcdefg", max_size=3)
    [['a', 'b'], ['c', 'd'], ['e', 'f', 'g']]
    """
    count = -(-len(items) // max_size)
    bounds = [len(items) * index // count for index in range(count + 1)]
    return [list(items[start:end]) for start, end in pairwise(bounds)]


def batch_size(graph: Graph, model: ModelConfig, device: torch.device, *, workers: int = 1, passes: int = 1) -> int:
    """The number of runs per batch on this graph and device, when `workers` batches train at once.

    As many as fit into memory on a GPU; on a CPU at most `MAX_CPU_BATCH`. Raises as `max_runs_in_memory`.
    """
    max_size = max_runs_in_memory(graph, model, device, workers=workers, passes=passes)
    return max_size if device.type == "cuda" else min(max_size, max(1, MAX_CPU_BATCH // passes))


def max_runs_in_memory(
    graph: Graph, model: ModelConfig, device: torch.device, *, workers: int = 1, passes: int = 1
) -> int:
    """How many runs on this graph fit into the memory of this device, when `workers` batches train at once.

    Raises
    ------
    InvalidInput
        If not even one run fits.
    """
    shared, per_run = 4 * model.floats_shared(graph), bytes_per_run(graph, model, device, passes=passes)
    memory = available_memory(device) // workers
    advice = f"for each of {workers} workers; use fewer, {model.memory_advice}" if workers > 1 else model.memory_advice
    check_memory(shared + per_run, memory, device, what=f"one run of {model.title} on {graph.name}", advice=advice)
    return max(1, (int(MEMORY_FRACTION * memory) - shared) // per_run)


def bytes_per_run(graph: Graph, model: ModelConfig, device: torch.device, *, passes: int = 1) -> int:
    """Estimated memory of one run of a batch in training, in bytes, with so many passes in an optimiser step."""
    saved = model.floats_saved_by_kernels(graph) if kernels_for_device(device) else 0
    return 4 * passes * (model.floats_per_run(graph) - saved)


def estimate_training(
    graph: Graph, model: ModelConfig, training: TrainingConfig, *, runs: int, device: torch.device, threads: int = 1
) -> tuple[float, float]:
    """A rough estimate of the seconds of an epoch of all runs and of the training, before it begins.

    An epoch moves each float of `floats_per_run` a few times; the number of epochs is that of recorded trainings.
    """
    if not model.has_weights:
        return 0.0, 0.0
    floats = runs * training.passes * model.floats_per_run(graph)
    cores = min(threads, max(1.0, floats / FLOATS_PER_THREAD))
    epoch = floats * (GPU_SECONDS_PER_FLOAT if device.type == "cuda" else CPU_SECONDS_PER_FLOAT / cores)
    stored = graph.features if isinstance(graph.features, np.ndarray) else graph.features.data
    return epoch, epoch * min(expected_patiences(stored) * training.patience, training.max_epochs)


def check_memory(needed: int, available: int, device: torch.device, *, what: str, advice: str) -> None:
    """Raise `InvalidInput` if more bytes are needed than the device has."""
    if needed > available:
        raise InvalidInput(
            f"{what} needs about {needed:,} bytes of memory ({needed / 2**30:.1f} GiB), but {device} has "
            f"{available / 2**30:.1f} GiB; {advice}, or use a larger machine."
        )
