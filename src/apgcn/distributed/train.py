"""Training of one model on a sharded graph: every rank holds some rows, and rank 0 writes checkpoints.

`ShardedTrainer` is a `BatchedTrainer` whose losses, metrics and gradients are sums over all ranks. Every rank has all
weights and takes the same optimiser steps, so early stopping, patience and the best weights are the same on each.
Dropout masks are drawn by every rank from a random stream of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apgcn import __version__
from apgcn._utils.formatting import pluralize
from apgcn._utils.validation import config_to_python
from apgcn.data.splits import SET_NAMES
from apgcn.distributed.checkpoint import CheckpointWriter, describe_difference, resume
from apgcn.distributed.communication import Communicator, Traffic
from apgcn.distributed.graph_shard import GraphShard, GraphSource
from apgcn.distributed.halo import HaloExchange, ShardedAdjacency
from apgcn.distributed.partition import check_partition, resolve_method
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph, features_to_device
from apgcn.ops.devices import return_free_memory
from apgcn.ops.dispatch import kernels_for_device
from apgcn.ops.rng import RandomStream, derive_seed
from apgcn.ops.threads import kernel_threads, resolve_threads
from apgcn.training.config import TrainingConfig
from apgcn.training.loss import NodeSet, l2_regularization
from apgcn.training.runs import Evaluation, Run
from apgcn.training.trainer import TRIM_INTERVAL, BatchedTrainer, Progress


@dataclass(frozen=True, eq=False)
class ShardedNodeSet(NodeSet):
    """The nodes of a set that are on this rank; its means are this rank's terms of the means over the whole set.

    Attributes
    ----------
    total : int
        Number of nodes of the set on all ranks.
    """

    total: int = 0

    @property
    def fraction(self) -> float:
        """The fraction of the set's nodes that are on this rank."""
        return self.index.shape[1] / self.total

    def select(self, runs: Tensor) -> ShardedNodeSet:
        """The sets of some runs, given by their positions in the run batch."""
        return replace(self, index=self.index[runs], labels=self.labels[runs])

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """This rank's term of the mean over all nodes of the set, one value per run."""
        return self.fraction * super().cross_entropy(logits) if self.fraction else _zeros(logits)

    def num_correct(self, logits: Tensor) -> Tensor:
        """Number of correct predictions on this rank, one value per run; sums of integers do not round."""
        return (self._gather(logits).argmax(-1) == self.labels).double().sum(1)


class ShardedTrainer(BatchedTrainer):
    """Trainer of a run batch with the rows of one rank.

    Parameters
    ----------
    comm : Communicator
    shard : GraphShard
    partition : array of shape (nodes,)
        The rank of every node.
    num_classes : int
    runs : sequence of Run
        All with the same split.
    model : ModelConfig
    training : TrainingConfig
    """

    def __init__(
        self,
        comm: Communicator,
        shard: GraphShard,
        partition: np.ndarray,
        num_classes: int,
        runs: Sequence[Run],
        model: ModelConfig,
        training: TrainingConfig,
    ):
        self.comm, self.shard, self.total_nodes = comm, shard, len(partition)
        adjacency = ShardedAdjacency(shard, HaloExchange.create(shard, partition, comm), device=comm.device)
        labels = torch.as_tensor(shard.labels.copy(), device=comm.device)
        graph = DeviceGraph(features_to_device(shard.features, device=comm.device), adjacency, labels, num_classes)
        super().__init__(graph, runs, model, training)
        if comm.size > 1:
            seeds = [derive_seed(run.rng_seed, comm.rank, comm.size) for run in runs]
            self.rng = RandomStream(seeds, device=comm.device)

    def _node_sets(self) -> tuple[NodeSet, NodeSet]:
        split = self.runs[0].split
        return self._local_set(split.train), self._local_set(split.stopping)

    def _local_set(self, nodes: np.ndarray) -> ShardedNodeSet:
        labels = self.graph.labels
        rows = torch.as_tensor(self.shard.local_rows(nodes), device=labels.device).expand(len(self.runs), -1)
        return ShardedNodeSet(rows, labels[rows], len(nodes))

    def loss(self, output: PropagationOutput) -> Tensor:
        """This rank's term of the loss, one value per run; the sum over all ranks is the loss."""
        entropy = self.train_rows.cross_entropy(output.output)
        regularization = l2_regularization(self.model, l2=self.config.l2) / self.comm.size
        fraction = self.train_nodes.fraction  # type: ignore[attr-defined]
        if fraction:
            penalty = fraction * self.model.penalty_loss(output, self.train_rows.index)
        else:
            penalty = _zeros(output.cost[..., None])
        return entropy + regularization + penalty

    def _reduce_gradients(self) -> None:
        self.comm.all_reduce_([weight.grad for weight in self.model.parameters() if weight.grad is not None])

    def evaluate(self) -> Evaluation:
        """Metrics over the nodes of all ranks."""
        with torch.no_grad():
            output = self.model.forward_nodes(self.evaluated_nodes, self.graph)
            local = Evaluation(
                training_loss=self.loss(output),
                stopping_loss=self.stopping_rows.cross_entropy(output.output),
                stopping_accuracy=self.stopping_rows.num_correct(output.output),  # type: ignore[attr-defined]
                steps_mean=output.steps.double().sum(1),
            )
            total = Evaluation(*self.comm.all_reduce(*local))
            train_total, stopping_total = self.train_nodes.total, self.stopping_nodes.total  # type: ignore[attr-defined]
            return total._replace(
                stopping_accuracy=total.stopping_accuracy / stopping_total,
                steps_mean=total.steps_mean / (train_total + stopping_total),
            )

    def monitored_loss(self, evaluation: Evaluation) -> Tensor:
        """The loss of rank 0, on all ranks: early stopping must decide the same everywhere, to the last bit."""
        loss = super().monitored_loss(evaluation)
        return self.comm.broadcast(loss, shape=tuple(loss.shape), dtype=loss.dtype).to(loss.device)

    @property
    def _warmed_up(self) -> bool:
        """Never: collective operations cannot be captured in a CUDA graph."""
        return False


def _zeros(values: Tensor) -> Tensor:
    """Zeros, one value per run, that depend on all values: the backward pass must run on every rank."""
    return 0 * values.sum((1, 2))


@dataclass(frozen=True, eq=False)
class ShardedResult:
    """A run batch that all ranks have trained, as one of them holds it.

    Attributes
    ----------
    trainer : ShardedTrainer
    output : PropagationOutput
        Outputs of the best weights of every run, for the rows of this rank.
    epochs : int
        Number of epochs of this process, without those before a checkpoint.
    seconds : float
        Time of these epochs.
    traffic : Traffic
        What this rank has sent in these epochs.
    """

    trainer: ShardedTrainer
    output: PropagationOutput
    epochs: int
    seconds: float
    traffic: Traffic


def train_sharded(
    comm: Communicator,
    source: GraphSource,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    *,
    partition: str = "auto",
    threads: int | None = None,
    checkpoint: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    notify: Callable[[str], None] = lambda note: None,
) -> ShardedResult:
    """Train runs of one split as one run batch, whose rows are distributed over the ranks.

    Parameters
    ----------
    partition : "metis", "blocks" or "auto"
    threads : int, optional
        Maximum number of CPU threads of this rank; see `rank_threads`.
    checkpoint : path, optional
        A file of rank 0: training resumes from it if it exists, and it is rewritten every few seconds.
    notify : function, optional
        Called with sentences about the shards before the first epoch.

    Raises
    ------
    InvalidInput
        If the ranks have different graphs or configurations, or the model cannot be trained on shards.
    RankDied
        If a rank ends before the training does.
    """
    model, training = config_to_python(model), config_to_python(training)
    check_trainable_on_shards(model, training)
    check_same_graph(comm, source)
    methods = comm.all_gather(comm.run_collectively(lambda: resolve_method(partition)))
    method = "metis" if set(methods) == {"metis"} else "blocks"
    task = _describe_task(comm, source, runs, model, training, method=method)
    for rank, task_of_rank in enumerate(comm.all_gather(task)):
        if task_of_rank != task:
            raise InvalidInput(
                f"all ranks must train the same, but on rank {rank} {describe_difference(task, task_of_rank)}."
            )
    node_ranks = comm.broadcast_array(
        comm.run_collectively(lambda: source.partition(comm.size, method) if comm.rank == 0 else None),
        length=source.num_nodes,
        dtype=np.int16,
    )
    check_partition(node_ranks, comm.size)
    shard = comm.run_collectively(lambda: source.shard(node_ranks, comm.rank))
    with kernel_threads(rank_threads(comm, threads)):
        trainer = ShardedTrainer(comm, shard, node_ranks, len(source.class_names), runs, model, training)
        for note in _shard_notes(comm, trainer, partition, method):
            notify(note)
        resume(comm, trainer, checkpoint, task)
        if trainer.epochs:
            notify(f"training resumes after {pluralize(trainer.epochs, 'epoch')} from {checkpoint}")
        writer = CheckpointWriter(checkpoint if comm.rank == 0 else None)
        first_epoch, traffic_before, started = trainer.epochs, copy(comm.traffic), time.perf_counter()
        while trainer.has_active_runs:
            trainer.train_epoch()
            if trainer.epochs % TRIM_INTERVAL == 0 and comm.device.type == "cpu":
                return_free_memory()
            writer.write_if_due(trainer, task)
            if progress:
                progress(trainer.progress())
        seconds, traffic = time.perf_counter() - started, comm.traffic.since(traffic_before)
        output = trainer.best_outputs()
    return ShardedResult(trainer, output, trainer.epochs - first_epoch, seconds, traffic)


def check_trainable_on_shards(model: ModelConfig, training: TrainingConfig) -> None:
    """Raise `InvalidInput` if a model cannot be trained with its rows on several ranks."""
    if not model.row_shardable:
        raise InvalidInput(
            f"--distributed needs a model that computes each row from in-neighbours, but {model.title} needs all rows."
        )
    if training.consistency:
        raise InvalidInput(f"consistency must be 0 with --distributed, got {training.consistency:g}.")


def rank_threads(comm: Communicator, threads: int | None = None) -> int:
    """The number of threads of this rank, as `resolve_threads` chooses it for the ranks of this machine.

    Without torchrun, whose LOCAL_WORLD_SIZE counts them, all ranks are taken to be on this machine.
    """
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    return resolve_threads(threads, workers=int(text) if text.isdecimal() and int(text) else comm.size)


def check_same_graph(comm: Communicator, source: GraphSource) -> None:
    """Raise unless all ranks have the same graph."""
    digests = comm.all_gather([source.digest, source.num_nodes])
    for rank, (digest, nodes) in enumerate(digests):
        if digest != digests[0][0]:
            raise InvalidInput(
                f"all ranks must have the same graph, but that of rank {rank} ({nodes:,} nodes) differs from that of "
                f"rank 0 ({digests[0][1]:,} nodes); copy the file again, or use a folder that all of them share."
            )


def _describe_task(
    comm: Communicator,
    source: GraphSource,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    *,
    method: str,
) -> dict[str, Any]:
    """What is trained and how it is distributed, as JSON values: equal on all ranks, and in a checkpoint."""
    split = runs[0].split
    sets = b"/".join(getattr(split, name).tobytes() for name in SET_NAMES)
    task = {
        "version": __version__,
        "graph": source.digest,
        "model": [model.name, vars(model)],
        "training": vars(training),
        "seed": [str(run.rng_seed) for run in runs],
        "split": hashlib.sha256(sets).hexdigest(),
        "partition": method,
        "number of ranks": comm.size,
        "presence of numba": kernels_for_device(comm.device) is not None,
    }
    return json.loads(json.dumps(task))


def _shard_notes(comm: Communicator, trainer: ShardedTrainer, partition: str, method: str) -> list[str]:
    """A sentence about the shard of every rank, and a hint if METIS would cut fewer edges."""
    shard = trainer.shard
    counts = comm.all_gather(
        [len(shard.nodes), len(shard.halo_nodes), len(shard.local_rows(trainer.runs[0].split.train))]
    )
    notes = [
        f"rank {rank}: {rows:,} rows and {halo_nodes:,} halo nodes" + ("" if train_nodes else ", no training nodes")
        for rank, (rows, halo_nodes, train_nodes) in enumerate(counts)
    ]
    if partition == "auto" and method == "blocks" and comm.size > 1:
        notes.append('rows are divided into blocks; METIS (pip install "apgcn[metis]") needs less communication')
    return notes
