"""Outputs of a training on shards: the trained model, results gathered on rank 0, and a folder that all ranks share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.special import softmax

from apgcn._utils.atomic import new_folder
from apgcn.data.graph import Graph
from apgcn.distributed.communication import Communicator
from apgcn.distributed.graph_shard import GraphSource
from apgcn.distributed.train import ShardedResult
from apgcn.errors import InvalidInput
from apgcn.inference.evaluation import evaluate, fit_temperature
from apgcn.inference.predictions import Predictions, write_predictions
from apgcn.inference.trained_model import TrainedModel
from apgcn.ops.devices import peak_memory
from apgcn.training.runs import RunResult

PREDICTIONS_FOLDER = "predictions"  # in the folder of the model


@dataclass(frozen=True, eq=False)
class ShardedModel:
    """The trained model, equal on all ranks, and its predictions for the rows of this rank."""

    model: TrainedModel
    predictions: Predictions


def build_trained_model(
    comm: Communicator, result: ShardedResult, class_names: tuple[str, ...], num_features: int
) -> ShardedModel:
    """Drop diverged runs, fit the temperature, and evaluate on the stopping and test nodes of all ranks.

    It does for shards what `apgcn.inference.fit.fit` does for a graph in memory. The metrics of the sets are on rank 0.
    """
    trainer, output = result.trainer, result.output
    split = trainer.runs[0].split
    best_epochs, epochs = trainer.finished_epochs.tolist()
    finite = [number for number, epoch in enumerate(best_epochs) if epoch > 0]
    if not finite:
        raise InvalidInput("the loss was never finite; make learning_rate or l2 smaller, or scale the features.")
    logits = output.output[finite].cpu().numpy()
    set_logits, set_labels = {}, {}
    for name in ("stopping", "test"):
        rows = trainer.shard.local_rows(getattr(split, name))
        local_logits = torch.as_tensor(logits[:, rows]).transpose(0, 1)  # (nodes, runs, classes)
        set_logits[name] = comm.gather(local_logits.to(comm.device)).transpose(0, 1).numpy()
        set_labels[name] = comm.gather(torch.as_tensor(trainer.shard.labels[rows], device=comm.device)).numpy()
    temperature = fit_temperature(set_logits["stopping"], set_labels["stopping"]) if comm.rank == 0 else 1.0
    temperature = comm.all_gather(temperature)[0]
    metrics = {
        "epochs": [epochs[number] for number in finite],
        "best_epoch": [best_epochs[number] for number in finite],
        "diverged": len(best_epochs) - len(finite),
        "ranks": comm.size,
    }
    if comm.rank == 0:
        for name in ("stopping", "test"):
            probabilities = softmax(set_logits[name] / temperature, axis=-1).mean(axis=0)
            metrics[name] = evaluate(probabilities, set_labels[name])
    model = TrainedModel(
        config=trainer.model.config,  # type: ignore[arg-type]
        training=trainer.config,
        weights={name: weight[finite].cpu() for name, weight in trainer.finished_weights.items()},
        class_names=class_names,
        num_features=num_features,
        split=split,
        temperature=temperature,
        metrics=metrics,
    )
    steps, remainder = (value[finite].cpu().numpy() for value in (output.steps, output.remainder))
    probabilities = softmax(logits / temperature, axis=-1)
    return ShardedModel(
        model, comm.run_collectively(lambda: Predictions.from_ensemble(probabilities, steps, remainder))
    )


@contextmanager
def shared_folder(comm: Communicator, out: Path) -> Iterator[Path]:
    """A new folder that rank 0 creates and all ranks can write to; it becomes `out` when the block ends well."""
    with ExitStack() as stack:
        created = comm.run_collectively(lambda: stack.enter_context(new_folder(out)) if comm.rank == 0 else None)
        folder = Path(comm.all_gather(str(created) if created else "")[0])

        def check() -> None:
            if not folder.is_dir():
                raise InvalidInput(f"--out must be in a folder that all ranks share, but {out} does not exist here.")

        comm.run_collectively(check)
        yield folder


def check_shared_folder(comm: Communicator, out: Path) -> None:
    """Raise unless `shared_folder` can create such a folder; nothing is left of the attempt."""
    with suppress(_Discard), shared_folder(comm, out):
        raise _Discard


class _Discard(Exception):
    """Ends the block of `check_shared_folder`, so that the folder is removed."""


def write_predictions_of_rank(
    comm: Communicator, folder: Path, source: GraphSource, result: ShardedResult, sharded_model: ShardedModel
) -> None:
    """Write a table of predictions for the nodes of this rank, in the order of the graph."""
    shard = result.trainer.shard
    (folder / PREDICTIONS_FOLDER).mkdir(exist_ok=True)
    rows = len(shard.nodes)
    without_edges = Graph(
        sparse.csr_matrix((rows, rows)),
        np.zeros((rows, 1)),
        shard.labels,
        class_names=source.class_names,
        node_names=tuple(source.node_ids(shard.nodes)),
    )
    name = f"part-{comm.rank:05d}-of-{comm.size:05d}.csv"
    write_predictions(folder / PREDICTIONS_FOLDER / name, without_edges, sharded_model.predictions, source.class_names)


def gather_results(comm: Communicator, result: ShardedResult, labels: np.ndarray) -> list[RunResult]:
    """The results of all runs for the whole graph, on rank 0; an empty list elsewhere."""
    trainer = result.trainer
    nodes = comm.gather(torch.as_tensor(trainer.shard.nodes, device=comm.device))
    values = [comm.gather(value.transpose(0, 1)).transpose(0, 1).numpy() for value in result.output]
    if comm.rank:
        return []
    order = np.argsort(nodes.numpy())
    logits, steps, remainder = (value[:, order] for value in values)
    return trainer.make_results(logits, steps, remainder, labels)


def traffic_by_rank(comm: Communicator, result: ShardedResult) -> list[dict[str, Any]]:
    """The shard, traffic and peak memory of each rank in training, as JSON values."""
    traffic, shard = result.traffic, result.trainer.shard
    local = {
        "rows": len(shard.nodes),
        "halo_nodes": len(shard.halo_nodes),
        "bytes": traffic.bytes,
        "exchanges": traffic.exchanges,
        "bytes_per_exchange": traffic.bytes / max(1, traffic.exchanges),
        "bytes_per_epoch": traffic.bytes / max(1, result.epochs),
        "seconds_per_epoch": result.seconds / max(1, result.epochs),
        "communication_fraction": min(1.0, traffic.seconds / max(1e-9, result.seconds)),
        "peak_memory": peak_memory(),
    }
    return comm.all_gather(local)
