"""How many runs train together? As many as pay and fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch

from apgcn.devices import memory_of
from apgcn.errors import InvalidInput
from apgcn.graph import Graph
from apgcn.models.apgcn import APGCNSettings
from apgcn.models.network import ModelSettings
from apgcn.tensors import GraphTensors
from apgcn.training.loop import Progress, train_pack
from apgcn.training.result import RunResult
from apgcn.training.runs import Run
from apgcn.training.settings import TrainingSettings

MOST_ON_CPU = 8  # beyond, the activations leave the processor's caches and nothing is gained
SHARE = 0.6  # of the memory may be taken by a pack


def train(
    graph: Graph,
    runs: Sequence[Run],
    model: ModelSettings = APGCNSettings(),
    training: TrainingSettings = TrainingSettings(),
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
    model, training : settings
    device : "cpu" or "cuda"
    progress : function, optional
        Called after every epoch.

    Examples
    --------
    >>> from apgcn import clean, load, benchmark_runs
    >>> graph = clean(load("cora"))
    >>> result, = train(graph, benchmark_runs(graph, 1), training=TrainingSettings(max_epochs=3))
    >>> result.logits.shape, result.steps.shape, result.epochs
    ((2485, 7), (2485,), 3)
    """
    tensors = GraphTensors.of(graph, device=device)
    results: list[RunResult] = []
    for pack in divide(runs, most=pack_size(graph, model, device)):
        report = _among(progress, done=len(results), all_runs=len(runs), pack=len(pack)) if progress else None
        results += train_pack(tensors, pack, model, training, progress=report)
    return results


def divide(runs: Sequence[Run], *, most: int) -> list[Sequence[Run]]:
    """The runs in order, in as few packs as possible, of nearly equal size."""
    packs = -(-len(runs) // most)
    bounds = [len(runs) * number // packs for number in range(packs + 1)] if packs else [0]
    return [runs[start:end] for start, end in pairwise(bounds)]


def pack_size(graph: Graph, model: ModelSettings, device: torch.device | str) -> int:
    """How many runs of this graph go into a pack on this device.

    Raises
    ------
    InvalidInput
        If not even one run fits into the memory there is.
    """
    bytes_per_run = 4 * model.floats_per_run(graph)
    memory = memory_of(torch.device(device))
    if bytes_per_run > memory:
        raise InvalidInput(
            f"one run on {graph.name} needs about {bytes_per_run / 2**30:.1f} GiB of memory, but {device} has "
            f"{memory / 2**30:.1f} GiB; make max_steps or hidden smaller, or use a larger machine."
        )
    fitting = max(1, int(SHARE * memory) // bytes_per_run)
    return fitting if torch.device(device).type == "cuda" else min(fitting, MOST_ON_CPU)


def _among(progress: Callable[[Progress], None], *, done: int, all_runs: int, pack: int) -> Callable[[Progress], None]:
    """A pack's progress as that of all runs."""
    return lambda at: progress(Progress(at.epoch, done + at.done, (done + pack * at.share) / all_runs))
