"""How do ranks train one model? Each takes its part, all take the same steps, and rank 0 keeps a checkpoint."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from apgcn import __version__
from apgcn._utils.formatting import counted
from apgcn._utils.validation import as_plain
from apgcn.data.splits import SETS
from apgcn.distributed.checkpoint import Kept, difference, go_on
from apgcn.distributed.communication import Communicator, Traffic
from apgcn.distributed.graph_source import Source
from apgcn.distributed.partition import check_owners, way_of
from apgcn.distributed.trainer import PartPack
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.devices import one_thread, return_free_memory
from apgcn.ops.dispatch import kernels_for_device
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import Run
from apgcn.training.trainer import TIDY_EVERY, Progress


@dataclass(frozen=True, eq=False)
class Trained:
    """A pack that all ranks have trained, seen from one of them.

    Attributes
    ----------
    pack : PartPack
    said : Propagated
        What the best weights of every run say of the rows that are here.
    epochs, seconds, traffic
        How many epochs were trained here and now, how long they took, and what this rank said meanwhile.
    """

    pack: PartPack
    said: PropagationOutput
    epochs: int
    seconds: float
    traffic: Traffic


def train_together(
    world: Communicator,
    source: Source,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    *,
    partition: str = "auto",
    checkpoint: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    tell: Callable[[str], None] = lambda note: None,
) -> Trained:
    """Train runs of one split as one pack, whose rows lie on the ranks.

    Parameters
    ----------
    partition : str
        "metis", "blocks", or "auto".
    checkpoint : path, optional
        Of rank 0: from there it goes on if the file is there, and there it is kept from time to time.
    tell : function, optional
        Is told what a user should know about the parts, before the first epoch.

    Raises
    ------
    InvalidInput
        If the ranks see different graphs or settings, or the model cannot be trained in parts.
    RankDied
        If a rank ends before the training does.
    """
    model, training = as_plain(model), as_plain(training)
    if not model.row_shardable:
        raise InvalidInput(f"--distributed must have a model that listens in steps, but {model.title} needs all rows.")
    check_same(world, source)
    ways = world.all_gather(world.together(lambda: way_of(partition)))
    way = "metis" if set(ways) == {"metis"} else "blocks"
    facts = _facts(world, source, runs, model, training, way=way)
    for rank, theirs in enumerate(world.all_gather(facts)):
        if theirs != facts:
            raise InvalidInput(f"all ranks must train the same, but of rank {rank} {difference(facts, theirs)}.")
    owner = world.array_from_first(
        world.together(lambda: source.owners(world.size, way) if world.rank == 0 else None),
        length=source.nodes,
        dtype=np.int16,
    )
    check_owners(owner, world.size)
    part = world.together(lambda: source.part(owner, world.rank))
    with one_thread():
        pack = PartPack(world, part, owner, len(source.class_names), runs, model, training)
        for note in _notes(world, pack, partition, way):
            tell(note)
        go_on(world, pack, checkpoint, facts)
        if pack.epochs:
            tell(f"it goes on after {counted(pack.epochs, 'epoch')}, with what {checkpoint} has kept")
        kept = Kept(checkpoint if world.rank == 0 else None)
        begun, before, started = pack.epochs, copy(world.traffic), time.perf_counter()
        while pack.going:
            pack.epoch()
            if pack.epochs % TIDY_EVERY == 0 and world.device.type == "cpu":
                return_free_memory()
            kept.keep(pack, facts)
            if progress:
                progress(pack.progress())
        seconds, traffic = time.perf_counter() - started, world.traffic.since(before)
        said = pack.answers()
    return Trained(pack, said, pack.epochs - begun, seconds, traffic)


def check_same(world: Communicator, source: Source) -> None:
    """Whether all ranks see the same graph, in words if not."""
    digests = world.all_gather([source.digest, source.nodes])
    for rank, (digest, nodes) in enumerate(digests):
        if digest != digests[0][0]:
            raise InvalidInput(
                f"all ranks must see the same graph, but that of rank {rank} ({nodes:,} nodes) differs from that of "
                f"rank 0 ({digests[0][1]:,} nodes); copy the file again, or use a folder that all of them share."
            )


def _facts(
    world: Communicator, source: Source, runs: Sequence[Run], model: ModelConfig, training: TrainingConfig, *, way: str
) -> dict[str, Any]:
    """Which training it is, as plain JSON values, and how it is divided."""
    split = runs[0].split
    sets = b"/".join(getattr(split, name).tobytes() for name in SETS)
    facts = {
        "version": __version__,
        "graph": source.digest,
        "model": [model.name, vars(model)],
        "training": vars(training),
        "seed": [str(run.rng_seed) for run in runs],
        "split": hashlib.sha256(sets).hexdigest(),
        "partition": way,
        "number of ranks": world.size,
        "presence of numba": kernels_for_device(world.device) is not None,
    }
    return json.loads(json.dumps(facts))


def _notes(world: Communicator, pack: PartPack, partition: str, way: str) -> list[str]:
    counts = world.all_gather(
        [len(pack.part.own), len(pack.part.ghosts), len(pack.part.local(pack.runs[0].split.train))]
    )
    notes = [
        f"rank {rank}: {rows:,} rows, and {ghosts:,} of others that they hear"
        + ("" if trains else "; none of them trains, it serves the others")
        for rank, (rows, ghosts, trains) in enumerate(counts)
    ]
    if partition == "auto" and way == "blocks" and world.size > 1:
        notes.append('rows are divided into blocks; pip install "apgcn[metis]" divides them so that ranks talk less')
    return notes
