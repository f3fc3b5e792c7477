"""What do ranks leave behind? One folder, as one rank would, and predictions of each rank's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from apgcn._utils.atomic import new_folder
from apgcn.data.graph import Graph
from apgcn.distributed.communication import Communicator
from apgcn.distributed.fit import FittedPart
from apgcn.distributed.graph_source import Source
from apgcn.distributed.train import Trained
from apgcn.errors import InvalidInput
from apgcn.inference.predictions import write_predictions
from apgcn.ops.devices import peak_memory
from apgcn.training.runs import RunResult

PREDICTIONS = "predictions"  # a folder in that of the model


@contextmanager
def folder_of_all(world: Communicator, out: Path) -> Iterator[Path]:
    """A new folder, made by rank 0, which all ranks can write to; whole or not at all."""
    with ExitStack() as stack:
        made = world.together(lambda: stack.enter_context(new_folder(out)) if world.rank == 0 else None)
        folder = Path(world.all_gather(str(made) if made else "")[0])

        def look() -> None:
            if not folder.is_dir():
                raise InvalidInput(f"--out must be in a folder that all ranks share, but {out} is not here.")

        world.together(look)
        yield folder


def try_folder(world: Communicator, out: Path) -> None:
    """Whether there can be such a folder, before long work; nothing is left of the trial."""
    with suppress(_Enough), folder_of_all(world, out):
        raise _Enough


class _Enough(Exception):
    pass


def save_predictions(world: Communicator, folder: Path, source: Source, trained: Trained, made: FittedPart) -> None:
    """Every rank writes a table of its nodes, in the order of the graph."""
    part = trained.pack.part
    (folder / PREDICTIONS).mkdir(exist_ok=True)
    nobody = sparse.csr_matrix((len(part.own), len(part.own)))
    alone = Graph(
        nobody,
        np.zeros((len(part.own), 1)),
        part.labels,
        class_names=source.class_names,
        node_names=tuple(source.names(part.own)),
    )
    name = f"part-{world.rank:05d}-of-{world.size:05d}.csv"
    write_predictions(folder / PREDICTIONS / name, alone, made.said, source.class_names)


def gathered(world: Communicator, trained: Trained, labels: np.ndarray) -> list[RunResult]:
    """The runs as one rank would have them, at rank 0; elsewhere none."""
    pack, said = trained.pack, trained.said
    own = world.to_first(torch.as_tensor(pack.part.own, device=world.device))
    values = [world.to_first(value.transpose(0, 1)).transpose(0, 1).numpy() for value in said]  # nodes first
    if world.rank:
        return []
    order = np.argsort(own.numpy())
    logits, steps, remainder = (value[:, order] for value in values)
    return pack.results_of(logits, steps, remainder, labels)


def traffic_of(world: Communicator, trained: Trained) -> list[dict[str, Any]]:
    """What each rank holds and what it has said in training, as plain JSON values."""
    said = trained.traffic
    own = {
        "rows": len(trained.pack.part.own),
        "ghosts": len(trained.pack.part.ghosts),
        "bytes": said.bytes,
        "exchanges": said.exchanges,
        "bytes_per_exchange": said.bytes / max(1, said.exchanges),
        "bytes_per_epoch": said.bytes / max(1, trained.epochs),
        "seconds_per_epoch": trained.seconds / max(1, trained.epochs),
        "share_of_time": min(1.0, said.seconds / max(1e-9, trained.seconds)),
        "peak_memory": peak_memory(),
    }
    return world.all_gather(own)
