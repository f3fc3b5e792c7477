"""How long does an epoch take: a training step and an evaluation, beside those of others, in turns?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from apgcn.bench.peers import peers
from apgcn.devices import one_thread
from apgcn.graph import Graph
from apgcn.models.apgcn import APGCNSettings
from apgcn.tensors import GraphTensors
from apgcn.training.loop import Pack
from apgcn.training.repeating import own_stream
from apgcn.training.runs import Run
from apgcn.training.settings import TrainingSettings

WARM_UP = 12  # epochs on a GPU: the halting unit has learned twice, and all work is recorded
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

    @property
    def per_run_ms(self) -> float:
        return self.epoch_ms / self.runs


def timed_epochs(
    graph: Graph,
    runs: Sequence[Run],
    model: APGCNSettings,
    training: TrainingSettings,
    *,
    packs: Sequence[int],
    rounds: int,
    device: torch.device,
    beside: bool,
) -> list[Epoch]:
    """Epochs of packs of so many runs each, and of the peers, in turns; one thread on a processor."""
    with one_thread(), own_stream(device):
        tensors = GraphTensors.of(graph, device=device)
        clocks: dict[tuple[str, int], Callable[[], tuple[float, float]]] = {}
        for size in packs:
            pack = Pack(tensors, runs[:size], model, training)
            clocks["apgcn", size] = lambda pack=pack: _of_pack(pack, device)  # type: ignore[misc]
        for name, peer in (peers(graph, runs[0], model, training, device=device) if beside else {}).items():
            clocks[name, 1] = lambda peer=peer: _two_parts(peer.step, peer.evaluate, device)  # type: ignore[misc]
        times: dict[tuple[str, int], list[tuple[float, float]]] = {one: [] for one in clocks}
        for clock in clocks.values():
            for _ in range(WARM_UP if device.type == "cuda" else min(3, rounds)):
                clock()
        for _ in range(rounds):
            for (name, size), clock in clocks.items():
                for _ in range(OFTEN if name == "apgcn" and size == 1 else 1):
                    times[name, size].append(clock())
    return [_epoch(name, size, np.array(found)) for (name, size), found in times.items()]


def _epoch(name: str, runs: int, times: np.ndarray) -> Epoch:
    step, evaluation = np.median(times, axis=0)
    low, middle, high = np.percentile(times.sum(axis=1), [25, 50, 75])
    return Epoch(name, runs, len(times), *(float(ms) for ms in (step, evaluation, middle, low, high)))


def _of_pack(pack: Pack, device: torch.device) -> tuple[float, float]:
    pack.begin()
    return _two_parts(pack.step, pack.assess, device)


def _two_parts(step: Callable[[], object], evaluate: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Milliseconds of both."""
    moments = [now(device)]
    for part in (step, evaluate):
        part()
        moments.append(now(device))
    return 1000 * (moments[1] - moments[0]), 1000 * (moments[2] - moments[1])


def now(device: torch.device) -> float:
    """The time when all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
