"""Time of an epoch, a training step and an evaluation, interleaved with PyTorch Geometric implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from apgcn.benchmark.speed.pyg_baselines import build_baselines
from apgcn.data.graph import Graph
from apgcn.models.apgcn import APGCNConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.threads import kernel_threads
from apgcn.training.config import TrainingConfig
from apgcn.training.cuda_graphs import measure_ms, side_stream
from apgcn.training.runs import Run
from apgcn.training.trainer import BatchedTrainer

Key = tuple[str, int]  # name of the implementation, and number of runs in the batch
Epoch = Callable[[], tuple[float, ...]]  # runs one epoch; milliseconds of its step and of its evaluation

WARM_UP = 16  # epochs on a GPU: all CUDA graphs are captured, that of the epochs with a halting update too
EPOCHS_PER_BASELINE = 20  # of ours, with one run, per epoch of a baseline, which takes longer than all of them


@dataclass(frozen=True)
class EpochTime:
    """Milliseconds of an epoch: medians of its parts, and the median and quartiles of their sum.

    The times are those of a batch of `runs`; `epochs` is the number of measurements.
    """

    name: str
    runs: int
    epochs: int
    step_ms: float
    evaluation_ms: float
    epoch_ms: float
    epoch_low: float
    epoch_high: float


def time_epochs(
    graph: Graph,
    runs: Sequence[Run],
    model: APGCNConfig,
    training: TrainingConfig,
    *,
    batch_sizes: Sequence[int],
    repeats: int,
    device: torch.device,
    threads: int,
    with_baselines: bool,
) -> list[EpochTime]:
    """Time epochs of the smallest batch and of the baselines, interleaved; then of the larger batches.

    The larger batches come last: the memory that they leave allocated changes how fast large tensors, such as those of
    the baselines, are allocated. On a CPU our kernels and PyTorch in the baselines get the same number of threads.
    """
    smallest, *larger = sorted(batch_sizes)
    with kernel_threads(threads), side_stream(device):
        device_graph = DeviceGraph.from_graph(graph, device=device)
        baselines = build_baselines(graph, runs[0], model, training, device=device) if with_baselines else {}
        epochs = {("apgcn", smallest): _timed_epoch(BatchedTrainer(device_graph, runs[:smallest], model, training))}
        for name, baseline in baselines.items():
            epoch = partial(measure_ms, baseline.step, baseline.evaluate, device=device)
            epochs[name, 1] = partial(_with_torch_threads, epoch, threads)
        per_repeat = {key: EPOCHS_PER_BASELINE if baselines and key[0] == "apgcn" else 1 for key in epochs}
        times = _interleave(epochs, repeats, per_repeat=per_repeat, device=device)
        for size in larger:
            epochs = {("apgcn", size): _timed_epoch(BatchedTrainer(device_graph, runs[:size], model, training))}
            times |= _interleave(epochs, repeats, per_repeat={}, device=device)
    return [_epoch_time(name, size, np.array(rows)) for (name, size), rows in times.items()]


def _with_torch_threads(epoch: Epoch, threads: int) -> tuple[float, ...]:
    """Run an epoch of PyTorch's operations with this number of threads, of which `kernel_threads` leaves one."""
    torch.set_num_threads(threads)
    try:
        return epoch()
    finally:
        torch.set_num_threads(1)


def _interleave(
    epochs: Mapping[Key, Epoch], repeats: int, *, per_repeat: Mapping[Key, int], device: torch.device
) -> dict[Key, list[tuple[float, ...]]]:
    """Times of every implementation, which take turns; each runs `per_repeat` epochs in its turn, or one."""
    times: dict[Key, list[tuple[float, ...]]] = {key: [] for key in epochs}
    for epoch in epochs.values():
        for _ in range(WARM_UP if device.type == "cuda" else min(3, repeats)):
            epoch()
    for _ in range(repeats):
        for key, epoch in epochs.items():
            for _ in range(per_repeat.get(key, 1)):
                times[key].append(epoch())
    return times


def _epoch_time(name: str, runs: int, times: np.ndarray) -> EpochTime:
    step, evaluation = np.median(times, axis=0)
    low, middle, high = np.percentile(times.sum(axis=1), [25, 50, 75])
    return EpochTime(name, runs, len(times), *(float(ms) for ms in (step, evaluation, middle, low, high)))


def _timed_epoch(trainer: BatchedTrainer) -> Epoch:
    def epoch() -> tuple[float, ...]:
        trainer.begin_epoch()
        return measure_ms(trainer.step, trainer.evaluate_and_snapshot, device=trainer.device)

    return epoch
