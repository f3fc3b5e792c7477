"""How long does an epoch take: a training step and an evaluation, beside those of others, in turns?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from apgcn.benchmark.speed.pyg_baselines import peers
from apgcn.data.graph import Graph
from apgcn.models.apgcn import APGCNConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import one_thread
from apgcn.training.config import TrainingConfig
from apgcn.training.cuda_graphs import side_stream
from apgcn.training.runs import Run
from apgcn.training.timing import milliseconds
from apgcn.training.trainer import BatchedTrainer

Kind = tuple[str, int]  # what it is, and of how many runs
Clock = Callable[[], tuple[float, ...]]

WARM_UP = 16  # epochs on a GPU: all work is recorded, that in which the halting unit learns, too
OFTEN = 20  # epochs of ours, one run, in turn with one of a peer, which takes longer than all of them


@dataclass(frozen=True)
class Epoch:
    """How long an epoch takes, in milliseconds: medians, and the quartiles of the sum.

    `runs` train together; the times are those of all of them.
    """

    what: str
    runs: int
    epochs: int
    step_ms: float
    evaluation_ms: float
    epoch_ms: float
    epoch_low: float
    epoch_high: float


def timed_epochs(
    graph: Graph,
    runs: Sequence[Run],
    model: APGCNConfig,
    training: TrainingConfig,
    *,
    packs: Sequence[int],
    rounds: int,
    device: torch.device,
    beside: bool,
) -> list[Epoch]:
    """Epochs of the smallest pack and of the peers, in turns; then of the larger packs. One thread on a processor.

    The larger packs come last: what they leave in memory changes how fast large tensors, such as the peers', are had.
    """
    small, *large = sorted(packs)
    with one_thread(), side_stream(device):
        tensors = DeviceGraph.of(graph, device=device)
        others = peers(graph, runs[0], model, training, device=device) if beside else {}
        clocks = {("apgcn", small): _clock(BatchedTrainer(tensors, runs[:small], model, training))}
        for name, peer in others.items():
            clocks[name, 1] = partial(milliseconds, peer.step, peer.evaluate, device=device)
        often = {one: OFTEN if others and one[0] == "apgcn" else 1 for one in clocks}
        times = _in_turns(clocks, rounds, often=often, device=device)
        for size in large:
            clocks = {("apgcn", size): _clock(BatchedTrainer(tensors, runs[:size], model, training))}
            times |= _in_turns(clocks, rounds, often={}, device=device)
    return [_epoch(name, size, np.array(found)) for (name, size), found in times.items()]


def _in_turns(
    clocks: Mapping[Kind, Clock], rounds: int, *, often: Mapping[Kind, int], device: torch.device
) -> dict[Kind, list[tuple[float, ...]]]:
    """What every clock says, in each round as often as is said of it."""
    times: dict[Kind, list[tuple[float, ...]]] = {one: [] for one in clocks}
    for clock in clocks.values():
        for _ in range(WARM_UP if device.type == "cuda" else min(3, rounds)):
            clock()
    for _ in range(rounds):
        for one, clock in clocks.items():
            for _ in range(often.get(one, 1)):
                times[one].append(clock())
    return times


def _epoch(name: str, runs: int, times: np.ndarray) -> Epoch:
    step, evaluation = np.median(times, axis=0)
    low, middle, high = np.percentile(times.sum(axis=1), [25, 50, 75])
    return Epoch(name, runs, len(times), *(float(ms) for ms in (step, evaluation, middle, low, high)))


def _clock(pack: BatchedTrainer) -> Clock:
    def epoch() -> tuple[float, ...]:
        pack.begin()
        return milliseconds(pack.step, pack.assess, device=pack.device)

    return epoch
