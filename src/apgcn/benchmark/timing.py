"""How long does an epoch take?"""

from __future__ import annotations

import numpy as np
import torch

from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.graph_cache import cleaned
from apgcn.benchmark.records import TimingRecord, timing_key
from apgcn.benchmark.worker import origin, run_of
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import hardware, one_thread, resolve
from apgcn.training.config import split_config
from apgcn.training.cuda_graphs import side_stream
from apgcn.training.timing import milliseconds
from apgcn.training.trainer import BatchedTrainer

WARM_UP, TIMED = 5, 30  # epochs


def timed(run_config: RunConfig, *, device: str, command: str) -> TimingRecord:
    """Some epochs of the condition's first run, with a look at the clock."""
    place = resolve(device)
    model, training = split_config(run_config.model, dict(run_config.hyperparameters))
    with one_thread(), side_stream(place):
        pack = BatchedTrainer(
            DeviceGraph.of(cleaned(run_config.dataset), device=place),
            [run_of(key) for key in run_config.first_runs(1)],
            model,
            training,
        )
        clock = np.array([_epoch(pack, place) for _ in range(WARM_UP + TIMED)])[WARM_UP:]
    low, high = np.percentile(clock.sum(axis=1), [25, 75])
    return TimingRecord(
        key=timing_key(run_config, hardware(place)),
        dataset=run_config.dataset,
        model=run_config.model,
        hyperparameters=dict(run_config.hyperparameters),
        batch_runs=1,
        epochs=TIMED,
        step_ms=float(np.median(clock[:, 0])),
        evaluation_ms=float(np.median(clock[:, 1])),
        epoch_ms=float(np.median(clock.sum(axis=1))),
        epoch_low=float(low),
        epoch_high=float(high),
        **origin(place, command),
    )


def _epoch(pack: BatchedTrainer, device: torch.device) -> tuple[float, ...]:
    """Milliseconds of the step and of the evaluation."""
    pack.begin()
    return milliseconds(pack.step, pack.assess, device=device)
