"""How many runs train together? As many as pay and fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch

from apgcn._utils.validation import as_plain
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import memory_of, one_thread, resolve
from apgcn.ops.dispatch import kernels_for_device
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import Run, RunResult, check_run
from apgcn.training.trainer import Progress, train_batch

MAX_ON_CPU = 8  # more gains little on a small graph, and on a large one leaves the processor's caches
SHARE = 0.6  # of the memory may be taken by a pack


def train(
    graph: Graph,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig = TrainingConfig(),
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Train any number of runs, pack by pack, and return them in the order given.

    Parameters
    ----------
    graph : Graph
    runs : sequence of Run
        See `benchmark_runs`.
    model : settings of a network, such as APGCNSettings
    training : TrainingSettings
    device : "cpu" or "cuda"
        On a CPU one thread is used meanwhile: the tensors are small, and a second thread costs more than it brings.
    progress : function, optional
        Called with a `Progress` after every epoch; on a GPU, which must not be asked so often, after every tenth.

    Raises
    ------
    InvalidInput
        If there is no run, or one that does not belong to the graph.

    Examples
    --------
    >>> from apgcn import APGCNConfig, benchmark_runs, clean, load
    >>> graph = clean(load("cora"))
    >>> result, = train(graph, benchmark_runs(graph, 1), APGCNConfig(), TrainingConfig(max_epochs=3))
    >>> result.logits.shape, result.steps.shape, result.epochs
    ((2485, 7), (2485,), 3)
    """
    runs = _checked(runs, graph, model, training)
    model, training = as_plain(model), as_plain(training)
    place = resolve(str(device))
    most = pack_size(graph, model, place)
    results: dict[int, RunResult] = {}
    with one_thread():
        tensors = DeviceGraph.of(graph, device=place)
        for numbers in divide(runs, most=most):
            report = _among(progress, done=len(results), all_runs=len(runs), pack=len(numbers)) if progress else None
            trained = train_batch(tensors, [runs[number] for number in numbers], model, training, report)
            results.update(zip(numbers, trained, strict=True))
    return [results[number] for number in range(len(runs))]


def _checked(runs: Any, graph: Any, model: Any, training: Any) -> list[Run]:
    """The runs as a list, if they can be trained on this graph."""
    if not isinstance(graph, Graph):
        raise InvalidInput(f"graph must be a Graph, such as clean(load('cora')), got {type(graph).__name__}.")
    if not isinstance(training, TrainingConfig):
        raise InvalidInput(f"training must be TrainingSettings(...), got {training!r}.")
    if not isinstance(model, ModelConfig):
        raise InvalidInput(f"model must be the settings of a model, such as APGCNSettings(), got {model!r}.")
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


def divide(runs: Sequence[Run], *, most: int) -> list[list[int]]:
    """The positions of the runs, in as few packs as possible, of nearly equal size.

    The runs of a pack have equally large training and stopping sets.
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for number, run in enumerate(runs):
        alike.setdefault((len(run.split.train), len(run.split.stopping)), []).append(number)
    packs = []
    for numbers in alike.values():
        packs += evenly(numbers, most=most)
    return packs


def evenly(members: Sequence[Any], *, most: int) -> list[list[Any]]:
    """Members in as few parts as possible, of nearly equal size, none larger than `most`.

    >>> evenly("abcdefg", most=3)
    [['a', 'b'], ['c', 'd'], ['e', 'f', 'g']]
    """
    parts = -(-len(members) // most)
    bounds = [len(members) * part // parts for part in range(parts + 1)]
    return [list(members[start:end]) for start, end in pairwise(bounds)]


def fitting(graph: Graph, model: ModelConfig, device: torch.device, *, workers: int = 1) -> int:
    """How many runs of this graph fit into this device's memory, when `workers` packs train at once.

    Raises
    ------
    InvalidInput
        If not even one does.
    """
    shared, per_run = 4 * model.floats_shared(graph), bytes_per_run(graph, model, device)
    memory = memory_of(device) // workers
    share = f"for each of {workers} workers; use fewer, {model.memory_advice}" if workers > 1 else model.memory_advice
    what = f"one run of {model.title} on {graph.name}"
    check_fits(shared + per_run, memory, device, what=what, advice=share)
    return max(1, (int(SHARE * memory) - shared) // per_run)


def bytes_per_run(graph: Graph, model: ModelConfig, device: torch.device) -> int:
    """About how much memory one run of a pack takes while it trains."""
    saved = model.floats_saved(graph) if kernels_for_device(device) else 0
    return 4 * (model.floats_per_run(graph) - saved)


def check_fits(need: int, memory: int, device: torch.device, *, what: str, advice: str) -> None:
    """Whether so many bytes are there, in words if not."""
    if need > memory:
        raise InvalidInput(
            f"{what} needs about {need:,} bytes of memory ({need / 2**30:.1f} GiB), but {device} has "
            f"{memory / 2**30:.1f} GiB; {advice}, or use a larger machine."
        )


def pack_size(graph: Graph, model: ModelConfig, device: torch.device, *, workers: int = 1) -> int:
    """How many runs of this graph go into a pack on this device, when `workers` packs train at once; see `fitting`."""
    most = fitting(graph, model, device, workers=workers)
    return most if device.type == "cuda" else min(most, MAX_ON_CPU)


def _among(progress: Callable[[Progress], None], *, done: int, all_runs: int, pack: int) -> Callable[[Progress], None]:
    """A pack's progress as that of all runs."""
    return lambda at: progress(Progress(at.epoch, done + at.done, (done + pack * at.share) / all_runs))
