"""How long does an epoch take?"""

from __future__ import annotations

import numpy as np
import torch

from apgcn.benchmark.config import Condition
from apgcn.benchmark.graph_cache import cleaned
from apgcn.benchmark.records import TimingRecord, timing_key
from apgcn.benchmark.worker import origin, run_of
from apgcn.ops.device_graph import GraphTensors
from apgcn.ops.devices import hardware, one_thread, resolve
from apgcn.training.config import divide_settings
from apgcn.training.cuda_graphs import own_stream
from apgcn.training.timing import milliseconds
from apgcn.training.trainer import Pack

WARM_UP, TIMED = 5, 30  # epochs


def timed(condition: Condition, *, device: str, command: str) -> TimingRecord:
    """Some epochs of the condition's first run, with a look at the clock."""
    place = resolve(device)
    model, training = divide_settings(condition.model, dict(condition.settings))
    with one_thread(), own_stream(place):
        pack = Pack(
            GraphTensors.of(cleaned(condition.dataset), device=place),
            [run_of(key) for key in condition.first_runs(1)],
            model,
            training,
        )
        clock = np.array([_epoch(pack, place) for _ in range(WARM_UP + TIMED)])[WARM_UP:]
    low, high = np.percentile(clock.sum(axis=1), [25, 75])
    return TimingRecord(
        key=timing_key(condition, hardware(place)),
        dataset=condition.dataset,
        model=condition.model,
        settings=dict(condition.settings),
        pack_runs=1,
        epochs=TIMED,
        step_ms=float(np.median(clock[:, 0])),
        evaluation_ms=float(np.median(clock[:, 1])),
        epoch_ms=float(np.median(clock.sum(axis=1))),
        epoch_low=float(low),
        epoch_high=float(high),
        **origin(place, command),
    )


def _epoch(pack: Pack, device: torch.device) -> tuple[float, ...]:
    """Milliseconds of the step and of the evaluation."""
    pack.begin()
    return milliseconds(pack.step, pack.assess, device=device)
