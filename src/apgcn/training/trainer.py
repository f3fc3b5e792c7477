"""Training of a run batch: one tensor program, from which each run is dropped when it has stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from apgcn.models.base import BatchedModel, ModelConfig
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import return_free_memory
from apgcn.ops.dispatch import select_kernels
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import SparseMatrix
from apgcn.training.config import TrainingConfig
from apgcn.training.consistency import consistent_training_loss
from apgcn.training.cuda_graphs import CUDAGraphRunner, GraphMemoryPool, side_stream
from apgcn.training.early_stopping import EarlyStopping
from apgcn.training.loss import NodeSet, l2_regularization, training_loss
from apgcn.training.optimizer import BatchedAdam
from apgcn.training.runs import Evaluation, HistoryLog, Run, RunResult

TRIM_INTERVAL = 20  # epochs between returns of free memory to the system
SYNC_INTERVAL = 10  # epochs between synchronisations with a GPU, during which the host waits
# Epochs of a training, in multiples of the patience, by recorded trainings: with small features, as those of a bag of
# words whose rows were divided by their sums (results/h200), and with others (results/candidates.jsonl).
EXPECTED_PATIENCES_OF_SMALL_FEATURES, EXPECTED_PATIENCES = 11.0, 3.0
SMALL_FEATURE = 0.5  # mean absolute value
LATE_IMPROVEMENT = 1.25  # a run that still improves at some epoch is expected to take this multiple of it
DROP_SECONDS = 0.1  # that a GPU computes finished runs before it drops them: about as long as new CUDA graphs take


class Progress(NamedTuple):
    """Progress of a training after an epoch.

    `finished` is the number of runs that have stopped. `fraction` is an estimate of the fraction of all epochs that is
    done, see `expected_epochs`; with a time limit, of its time, if that is more.
    """

    epoch: int
    finished: int
    fraction: float


def train_batch(
    graph: DeviceGraph,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    progress: Callable[[Progress], None] | None = None,
    *,
    time_limit: float | None = None,
) -> list[RunResult]:
    """Train a run batch until its last run has stopped; each run trains as if it were alone, to the same bits.

    All runs are one tensor program on a GPU, and on a CPU where fused kernels compute the model. Other models train
    there one run after the other: the library's products and sums may round a run differently among others. A model
    without trained weights is solved instead, see `solve_batch`. After `time_limit` seconds no epoch begins, but each
    run trains for one.
    """
    if not model.has_weights:
        return solve_batch(graph, runs, model)
    device = graph.labels.device
    started = time.perf_counter()
    if len(runs) > 1 and not trains_as_one_batch(graph, model):
        results: list[RunResult] = []
        for run in runs:
            report = overall_progress(progress, finished=len(results), size=1, total=len(runs)) if progress else None
            seconds = remaining_share(time_limit, started, left=len(runs) - len(results))
            results += train_batch(graph, [run], model, training, report, time_limit=seconds)
        return results
    with side_stream(device):
        trainer = BatchedTrainer(graph, runs, model, training)
        while trainer.has_active_runs:
            synchronized = trainer.train_epoch()
            if trainer.epochs % TRIM_INTERVAL == 0 and device.type == "cpu":
                return_free_memory()
            used = (time.perf_counter() - started) / max(time_limit, 1e-9) if time_limit is not None else 0.0
            if progress and synchronized:
                now = trainer.progress()
                progress(now._replace(fraction=min(1.0, max(now.fraction, used))))
            if synchronized and used >= 1 and trainer.has_active_runs:
                trainer.stop()
        return trainer.results()


def remaining_share(time_limit: float | None, started: float, *, left: int) -> float | None:
    """The seconds for the next of `left` equal tasks that share what remains of a time limit."""
    if time_limit is None:
        return None
    return max(0.0, time_limit - (time.perf_counter() - started)) / left


def expected_patiences(stored_features: Tensor | np.ndarray) -> float:
    """Expected epochs of a training in multiples of its patience, from the stored values of the features."""
    magnitudes: Any = abs(stored_features)
    is_small = len(stored_features) and float(magnitudes.mean()) < SMALL_FEATURE
    return EXPECTED_PATIENCES_OF_SMALL_FEATURES if is_small else EXPECTED_PATIENCES


def expected_epochs(last_improvement: Tensor, *, patience: int, max_epochs: int, patiences: float) -> Tensor:
    """An estimate of the epochs at which runs stop, from the epochs of their last improvements.

    At least `patience` more than the last improvement, and before that has moved far, `patiences` times the patience;
    `test_epochs_are_estimated_within_a_factor_of_two` compares it with recorded trainings.
    """
    late = torch.maximum(last_improvement + patience, (LATE_IMPROVEMENT * last_improvement).long())
    return late.clamp(min=int(patiences * patience)).clamp(max=max_epochs)


def trains_as_one_batch(graph: DeviceGraph, model: ModelConfig) -> bool:
    """Whether the runs of a batch train together: on a GPU, and on a CPU where fused kernels compute all layers."""
    if graph.labels.device.type != "cpu":
        return True
    if not model.has_fused_kernel:
        return False
    width = max(graph.num_classes, getattr(model, "hidden_channels", 0))
    return select_kernels(graph.adjacency.weights, rows=graph.adjacency.num_nodes, width=width) is not None


def overall_progress(
    progress: Callable[[Progress], None], *, finished: int, size: int, total: int
) -> Callable[[Progress], None]:
    """A callback for the progress of `size` of the runs that reports the progress of all of them."""
    return lambda batch: progress(
        Progress(batch.epoch, finished + batch.finished, (finished + size * batch.fraction) / total)
    )


@torch.no_grad()
def solve_batch(graph: DeviceGraph, runs: Sequence[Run], model: ModelConfig) -> list[RunResult]:
    """Results of a model without trained weights: `ModelConfig.solve` from the graph and the training nodes' labels.

    They are recorded as a training of one epoch. The stopping nodes have no influence.
    """
    train_nodes, stopping_nodes = _stack_sets(graph, runs)
    prediction = model.solve(graph, train_nodes.index)
    log = HistoryLog(len(runs))
    evaluation = Evaluation(
        training_loss=train_nodes.cross_entropy(prediction.output),
        stopping_loss=stopping_nodes.cross_entropy(prediction.output),
        stopping_accuracy=stopping_nodes.accuracy(prediction.output),
        steps_mean=prediction.steps.sum(1) / prediction.steps.shape[1],  # an exact sum, in any order
    )
    log.append(torch.arange(len(runs)), evaluation)
    histories = log.per_run_histories([1] * len(runs))
    logits, steps, remainder = (value.cpu().numpy() for value in prediction)
    return [
        RunResult(
            run=run,
            logits=logits[index],
            steps=steps[index],
            remainder=remainder[index],
            weights={},
            history=histories[index],
            best_epoch=1,
            labels=graph.labels.cpu().numpy(),
        )
        for index, run in enumerate(runs)
    ]


def _stack_sets(graph: DeviceGraph, runs: Sequence[Run]) -> tuple[NodeSet, NodeSet]:
    """The training and the stopping nodes of all runs."""
    return (
        NodeSet.stack([run.split.train for run in runs], graph.labels, name="training"),
        NodeSet.stack([run.split.stopping for run in runs], graph.labels, name="stopping"),
    )


class BatchedTrainer:
    """Trainer of a run batch.

    An epoch is: an optimiser step on the loss, with dropout; an evaluation without dropout; a snapshot of the weights
    of each run whose best epoch this is; and the removal of each run whose patience is exhausted. On a GPU the first
    two are captured as CUDA graphs, see `cuda_graphs`; the host checks only every few epochs which runs have finished,
    and discards what a run computed after its last epoch.

    Attributes
    ----------
    runs : list of Run
        All runs, finished or not.
    active_runs : Tensor of shape (active,)
        Positions in `runs` of the runs that are still trained, in the order of the tensors' run axis.
    best_weights, best_epochs
        Of the active runs.
    finished_weights, finished_epochs
        Of all runs, filled as they finish: the best weights; best epochs and numbers of epochs as an array (2, runs).
    epochs : int
        Number of epochs so far.
    max_epochs : int
        The last epoch: that of the configuration, or the present one after `stop`.
    """

    def __init__(self, graph: DeviceGraph, runs: Sequence[Run], model: ModelConfig, training: TrainingConfig):
        self.graph, self.runs, self.config = graph, list(runs), training
        self.device = device = graph.labels.device
        on_gpu = device.type == "cuda"
        self.rng = RandomStream([run.rng_seed for run in runs], device=device)
        self.model: BatchedModel = model.build(graph, self.rng)
        self.optimizer = BatchedAdam(self.model.parameters(), learning_rate=training.learning_rate)
        self.early_stopping = EarlyStopping(
            len(runs), patience=training.patience, early_stop_mode=training.early_stop_mode, device=device
        )
        self.set_nodes(*self._node_sets())
        self.active_runs = torch.arange(len(runs), device=device)
        self.best_weights = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        self.best_epochs = torch.zeros(len(runs), dtype=torch.int64, device=device)
        self.finished_weights = {name: weight.clone() for name, weight in self.best_weights.items()}
        self.finished_epochs = np.zeros((2, len(runs)), dtype=np.int64)
        self.history = HistoryLog(len(runs))
        features = graph.features
        self._patiences = expected_patiences(features.values if isinstance(features, SparseMatrix) else features)
        self.epochs = 0
        self.max_epochs = training.max_epochs
        self.epoch_on_device = torch.zeros((), dtype=torch.int64, device=device)
        self.sync_interval, self.drop_seconds = (SYNC_INTERVAL, DROP_SECONDS) if on_gpu else (1, 0.0)
        self._wasted_seconds, self._last_check = 0.0, time.perf_counter()
        self._reset_cuda_graphs()

    def _node_sets(self) -> tuple[NodeSet, NodeSet]:
        """The training and the stopping nodes of all runs."""
        return _stack_sets(self.graph, self.runs)

    def set_nodes(self, train_nodes: NodeSet, stopping_nodes: NodeSet) -> None:
        """Set the nodes of the active runs; a forward pass returns the rows of the requested nodes alone."""
        self.train_nodes, self.stopping_nodes = train_nodes, stopping_nodes
        self.evaluated_nodes = torch.cat([train_nodes.index, stopping_nodes.index], dim=1)
        self.train_rows = train_nodes.as_rows(0)
        self.stopping_rows = stopping_nodes.as_rows(train_nodes.index.shape[1])

    def _reset_cuda_graphs(self) -> None:
        self._graph_pool, self._warm_up_start = GraphMemoryPool(self.device), self.epochs
        self._step_graphs: dict[tuple[bool, ...], CUDAGraphRunner[None]] = {}
        self._evaluation_graph: CUDAGraphRunner[Evaluation] = CUDAGraphRunner(self._graph_pool)

    @property
    def has_active_runs(self) -> bool:
        return len(self.active_runs) > 0

    def train_epoch(self) -> bool:
        """Train every active run for one epoch; return whether the host has checked which runs are finished."""
        self.begin_epoch()
        self.step()
        evaluation = self.evaluate_and_snapshot()
        self.history.append(self.active_runs, evaluation)
        last = self.epochs == self.max_epochs
        synchronize = last or self.epochs % self.sync_interval == 0
        if synchronize:
            finished = self.early_stopping.finished(self.epochs) | last
            if self._is_worth_dropping(int(finished.sum())):
                self.drop_finished(finished)
        return synchronize

    def _is_worth_dropping(self, num_finished: int) -> bool:
        """Whether a batch without its finished runs saves as much time as its CUDA graphs take to capture.

        The time that the finished runs have taken so far is the estimate of what they will take.
        """
        now = time.perf_counter()
        fraction = num_finished / len(self.active_runs)
        self._wasted_seconds += fraction * (now - self._last_check)
        self._last_check = now
        return fraction == 1 or (num_finished > 0 and self._wasted_seconds >= self.drop_seconds)

    def stop(self) -> None:
        """End the training of every active run with the present epoch."""
        self.max_epochs = self.epochs
        self.drop_finished(torch.ones(len(self.active_runs), dtype=torch.bool, device=self.device))

    def begin_epoch(self) -> None:
        """Advance the epoch counter and the random streams."""
        self.epochs += 1
        self.epoch_on_device.fill_(self.epochs)
        self.rng.seek(self.epochs)

    def step(self) -> None:
        """Take one step of Adam on the loss of every active run."""
        trainable = tuple(self.model.is_trainable(parameter, self.epochs) for parameter in self.model.parameters())
        for parameter, requires_grad in zip(self.model.parameters(), trainable, strict=True):
            parameter.requires_grad_(requires_grad)
        if trainable not in self._step_graphs:
            self._step_graphs[trainable] = CUDAGraphRunner(self._graph_pool)
        self._step_graphs[trainable](self._step, capture=self._warmed_up)

    @property
    def _warmed_up(self) -> bool:
        """Whether each kind of step has run eagerly, so that none must while a captured graph holds memory.

        A kind that recurs less often than the host synchronises is not waited for.
        """
        return self.epochs > self._warm_up_start + min(self.model.trainable_period, self.sync_interval)

    def _step(self) -> None:
        self.rng.rewind()
        self.optimizer.zero_grad()  # gradients of a failed capture
        self._step_loss().sum().backward()
        self._reduce_gradients()
        self.optimizer.step()
        self.optimizer.zero_grad()  # to None: Adam skips a parameter without gradient, momentum included

    def _step_loss(self) -> Tensor:
        """The loss of an optimiser step, with dropout, one value per run."""
        if self.config.consistency:
            return consistent_training_loss(
                self.model, self.graph, self.rng, self.train_nodes, self.config, self.epoch_on_device
            )
        return self.loss(self.model.forward_nodes(self.train_nodes.index, self.graph, self.rng))

    def loss(self, output: PropagationOutput) -> Tensor:
        """The training loss, one value per run; the first rows of the output are the training nodes."""
        return training_loss(self.model, output, self.train_rows, l2=self.config.l2)

    def _reduce_gradients(self) -> None:
        """Hook between the backward pass and the optimiser step, for gradients summed over processes."""

    def evaluate_and_snapshot(self) -> Evaluation:
        """Evaluate every active run, update early stopping, and copy the weights of each run at its best epoch."""
        return self._evaluation_graph(self._evaluate_and_snapshot, capture=self._warmed_up)

    def _evaluate_and_snapshot(self) -> Evaluation:
        evaluation = self.evaluate()
        is_best = self.early_stopping.update(
            self.epoch_on_device, evaluation.stopping_accuracy, self.monitored_loss(evaluation)
        )
        self.snapshot_best(is_best)
        return evaluation

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        """Losses, stopping accuracy and mean steps of every active run, with dropout off.

        Only the training and the stopping nodes are evaluated.
        """
        output = self.model.forward_nodes(self.evaluated_nodes, self.graph)
        return Evaluation(
            training_loss=self.loss(output),
            stopping_loss=self.stopping_rows.cross_entropy(output.output),
            stopping_accuracy=self.stopping_rows.accuracy(output.output),
            steps_mean=output.steps.sum(1) / output.steps.shape[1],  # an exact sum, in any order
        )

    @torch.no_grad()
    def monitored_loss(self, evaluation: Evaluation) -> Tensor:
        """The loss for patience and ties, one value per run; see `TrainingConfig.monitor`."""
        if self.config.monitor == "training":
            return evaluation.training_loss
        if self.config.monitor == "regularised":
            return evaluation.stopping_loss + l2_regularization(self.model, l2=self.config.l2)
        return evaluation.stopping_loss

    @torch.no_grad()
    def snapshot_best(self, is_best: Tensor) -> None:
        """Copy the weights of the runs for which this is the best epoch so far, `is_best` (runs,)."""
        if self.device.type == "cpu" and not is_best.any():
            return
        self.best_epochs.copy_(torch.where(is_best, self.epoch_on_device, self.best_epochs))
        for name, weight in self.model.named_parameters():
            mask = is_best.view(-1, *[1] * (weight.ndim - 1))
            torch.where(mask, weight, self.best_weights[name], out=self.best_weights[name])

    @torch.no_grad()
    def drop_finished(self, finished: Tensor) -> None:
        """Remove the finished runs from all tensors, and keep their best weights."""
        self._reset_cuda_graphs()
        self._wasted_seconds = 0.0
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # memory of the captured graphs
        dropped = self.active_runs[finished]
        self.finished_epochs[:, dropped.cpu().numpy()] = (
            torch.stack([self.best_epochs, self._last_epochs()])[:, finished].cpu().numpy()
        )
        remaining = (~finished).nonzero().squeeze(1)
        for name, best in self.best_weights.items():
            self.finished_weights[name][dropped] = best[finished]
            self.best_weights[name] = best[remaining]
        self.active_runs, self.best_epochs = self.active_runs[remaining], self.best_epochs[remaining]
        self.rng.select(remaining)
        self.early_stopping.select(remaining)
        self.set_nodes(self.train_nodes.select(remaining), self.stopping_nodes.select(remaining))
        self._select_parameters(remaining)

    def _select_parameters(self, remaining: Tensor) -> None:
        """Replace the parameters and their moments by those of some runs.

        They become new tensors: PyTorch remembers the shape of a tensor's gradient as long as any graph that it was
        part of is alive, and one in a reference cycle (compiling a kernel leaves such) is until Python collects it.
        """
        for module in self.model.modules():
            for name, parameter in list(module.named_parameters(recurse=False)):
                selected = nn.Parameter(parameter[remaining], requires_grad=parameter.requires_grad)
                setattr(module, name, selected)
                state = self.optimizer.state.pop(parameter, {})
                for moment in ("exp_avg", "exp_avg_sq"):
                    if moment in state:
                        state[moment] = state[moment][remaining]
                self.optimizer.state[selected] = state
        self.optimizer.parameters = list(self.model.parameters())

    def _last_epochs(self) -> Tensor:
        """The epoch at which each active run stops if nothing improves any more."""
        return (self.early_stopping.last_improvement + self.config.patience).clamp(max=self.max_epochs)

    def progress(self) -> Progress:
        """Progress of all runs; waits for a GPU."""
        finished = self._last_epochs() <= self.epochs
        expected = expected_epochs(
            self.early_stopping.last_improvement,
            patience=self.config.patience,
            max_epochs=self.max_epochs,
            patiences=self._patiences,
        )
        fractions = (self.epochs / expected).clamp(max=1).masked_fill(finished, 1.0).cpu()
        dropped = len(self.runs) - len(self.active_runs)
        return Progress(
            epoch=self.epochs,
            finished=dropped + int(finished.sum()),
            fraction=(dropped + float(fractions.sum())) / len(self.runs),
        )

    @torch.no_grad()
    def best_outputs(self) -> PropagationOutput:
        """Outputs of every run with its best weights; call it when all runs have finished."""
        for name, weight in self.model.named_parameters():
            weight.data = self.finished_weights[name]
        return self.model(self.graph)

    def results(self) -> list[RunResult]:
        """The results of all runs, evaluated with their best weights."""
        logits, steps, remainder = (value.cpu().numpy() for value in self.best_outputs())
        return self.make_results(logits, steps, remainder, self.graph.labels.cpu().numpy())

    def make_results(
        self, logits: np.ndarray, steps: np.ndarray, remainder: np.ndarray, labels: np.ndarray
    ) -> list[RunResult]:
        """The results of all runs from the outputs of their best weights, of shape (runs, nodes, ...)."""
        best_epochs, epochs = self.finished_epochs.tolist()
        histories = self.history.per_run_histories(epochs)
        weights = {name: weight.cpu() for name, weight in self.finished_weights.items()}
        return [
            RunResult(
                run=run,
                logits=logits[index],
                steps=steps[index],
                remainder=remainder[index],
                weights={name: weight[index : index + 1].clone() for name, weight in weights.items()},
                history=histories[index],
                best_epoch=best_epochs[index],
                labels=labels,
                converged=epochs[index] < self.max_epochs,
            )
            for index, run in enumerate(self.runs)
        ]
