"""Functions and actors of a Ray cluster, as they run on its machines."""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from apgcn import __version__
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.executors import ReportProgress, rate_limited
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.worker import cache_graph, cleaned_graph
from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import ApgcnError, InvalidInput
from apgcn.ops.devices import available_memory, resolve_device
from apgcn.ops.threads import kernel_threads, resolve_threads
from apgcn.training.batching import bytes_per_run

BATCHES_PER_GPU = 4  # more run batches at once only slow each other down

Outcome = TypeVar("Outcome")


class MemoryEstimate(NamedTuple):
    """Bytes: of a run batch, of each of its runs, and of the whole device."""

    shared: int
    per_run: int
    device: int


def estimate_memory(run_config: RunConfig, *, device: str) -> MemoryEstimate:
    """Estimate the memory that run batches of a run configuration need on this machine."""
    graph, torch_device = cleaned_graph(run_config.dataset), resolve_device(device)
    model, training = run_config.configs
    shared = 4 * model.floats_shared(graph)
    per_run = bytes_per_run(graph, model, torch_device, passes=training.passes)
    return MemoryEstimate(shared, per_run, available_memory(torch_device))


def gpu_fraction(memory: int, gpu_memory: int) -> float:
    """Fraction of a GPU that Ray reserves for a task of so many bytes.

    >>> gpu_fraction(10, 100), gpu_fraction(60, 100), gpu_fraction(200, 100)
    (0.25, 0.75, 1.0)
    """
    return min(1.0, math.ceil(BATCHES_PER_GPU * memory / gpu_memory) / BATCHES_PER_GPU)


class ProgressActor:
    """Actor that collects the progress of all tasks, by the key of their run batch."""

    def __init__(self) -> None:
        self._fractions: dict[str, float] = {}

    def set(self, key: str, fraction: float) -> None:
        self._fractions[key] = fraction

    def take(self) -> dict[str, float]:
        """The fractions that were set since the last call."""
        fractions, self._fractions = self._fractions, {}
        return fractions


class UserError(NamedTuple):
    """Message of an error in a task that the user can correct."""

    message: str


def run_task(
    version: str,
    dataset: str,
    graph_and_splits: tuple[Graph, tuple[Split, ...]],
    function: Callable,
    item: Any,
    arguments: dict[str, Any],
) -> Any:
    """Body of every task: check the version of apgcn, cache the graph, call the function with the item."""
    try:
        if version != __version__:
            raise InvalidInput(
                f"every machine of the Ray cluster must have apgcn {version}, but {socket.gethostname()} has "
                f"{__version__}; install the same there."
            )
        cache_graph(dataset, *graph_and_splits)
        return function(item, **arguments)
    except (ApgcnError, OSError) as error:
        return UserError(str(error))


def call_and_estimate(
    run_config: RunConfig, *, function: Callable, device: str, arguments: dict[str, Any]
) -> tuple[Any, MemoryEstimate]:
    """Result of a function of a run configuration, and the memory that run batches of it need."""
    return function(run_config, **arguments), estimate_memory(run_config, device=device)


def train_with_progress(
    batch: PlannedBatch,
    *,
    function: Callable[[PlannedBatch, ReportProgress], Outcome],
    cpus: int,
    progress_actor: Any,
) -> Outcome:
    """Call the function with a run batch, with a thread for each CPU of the task; its progress goes to the actor."""
    with kernel_threads(resolve_threads(cpus)):
        return function(batch, rate_limited(lambda fraction: progress_actor.set.remote(batch.key, fraction)))
