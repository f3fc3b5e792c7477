"""How does a pack of runs train? As one tensor program that each run leaves when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from apgcn._utils.process import uninterrupted
from apgcn.models.base import ModelConfig, Network
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.devices import return_free_memory
from apgcn.ops.rng import RandomStream
from apgcn.training.closed_form import solved
from apgcn.training.config import TrainingConfig
from apgcn.training.cuda_graphs import CUDAGraphRunner, GraphMemoryPool, side_stream
from apgcn.training.early_stopping import EarlyStopping
from apgcn.training.loss import Nodes, objective, regularisation
from apgcn.training.runs import Evaluation, HistoryLog, Run, RunResult

TIDY_EVERY = 20  # epochs: costs nothing that can be measured
LOOK_EVERY = 10  # epochs on a GPU, which must wait for each look at it
TOGETHER = 0.2  # of the runs of a pack leave it at once on a GPU, where the others are then recorded again


class Progress(NamedTuple):
    """Where the training is after an epoch.

    `done` counts the runs that have stopped. `share` is what part of all the epochs is behind us at most: each of the
    other runs is taken to stop as soon as its patience allows.
    """

    epoch: int
    done: int
    share: float


def train_batch(
    graph: DeviceGraph,
    runs: Sequence[Run],
    model: ModelConfig,
    training: TrainingConfig,
    progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Train runs together, each as if it were alone, until the last has stopped.

    A model without weights is not trained: it answers at once.
    """
    if not model.has_weights:
        return solved(graph, runs, model)
    device = graph.labels.device
    with side_stream(device):
        pack = BatchedTrainer(graph, runs, model, training)
        while pack.going:
            looked = pack.epoch()
            if pack.epochs % TIDY_EVERY == 0 and device.type == "cpu":
                return_free_memory()
            if progress and looked:
                progress(pack.progress())
        return pack.results()


class BatchedTrainer:
    """Runs in training.

    The order of an epoch: a step of the objective, with dropout; an evaluation, without; each run that is at its best
    keeps a copy of its weights; each run that has lost its patience leaves. On a GPU the two halves are recorded, see
    `repeating`; the host looks only every few epochs who may leave, and what a run did after its last epoch is
    forgotten.
    """

    def __init__(self, graph: DeviceGraph, runs: Sequence[Run], model: ModelConfig, training: TrainingConfig):
        self.graph, self.runs, self.config = graph, list(runs), training
        self.device = device = graph.labels.device
        on_gpu = device.type == "cuda"
        self.rng = RandomStream([run.rng_seed for run in runs], device=device)
        self.model: Network = model.build(graph, self.rng)
        with uninterrupted():  # PyTorch imports hundreds of modules when it makes its first optimiser
            self.optimiser = torch.optim.Adam(
                self.model.parameters(), lr=training.learning_rate, fused=True, capturable=on_gpu
            )
        self.stopping = EarlyStopping(
            len(runs), patience=training.patience, early_stop_mode=training.early_stop_mode, device=device
        )
        self.train, self.stop = self._sets()
        self.members = torch.arange(len(runs), device=device)  # which run stands where in the pack
        self.best = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        self.best_epochs = torch.zeros(len(runs), dtype=torch.int64, device=device)
        self.kept = {name: weight.clone() for name, weight in self.best.items()}  # of those that have left
        self.lasted = np.zeros((2, len(runs)), dtype=np.int64)  # best epoch and number of epochs, likewise
        self.history = HistoryLog(len(runs))
        self.epochs = 0
        self.now = torch.zeros((), dtype=torch.int64, device=device)  # the same, where the runs are
        self.look_every, self.together = (LOOK_EVERY, TOGETHER) if on_gpu else (1, 0.0)
        self._forget_records()

    def _sets(self) -> tuple[Nodes, Nodes]:
        """The nodes that train and those that say when to stop."""
        return (
            Nodes.of([run.split.train for run in self.runs], self.graph.labels, what="training"),
            Nodes.of([run.split.stopping for run in self.runs], self.graph.labels, what="stopping"),
        )

    def _forget_records(self) -> None:
        self._memory, self._rehearsing_since = GraphMemoryPool(self.device), self.epochs
        self._steps: dict[tuple[bool, ...], CUDAGraphRunner[None]] = {}
        self._assessment: CUDAGraphRunner[Evaluation] = CUDAGraphRunner(self._memory)

    @property
    def going(self) -> bool:
        return len(self.members) > 0

    def epoch(self) -> bool:
        """One epoch of every run; says whether the host looked at how they are."""
        self.begin()
        self.step()
        found = self.assess()
        self.history.append(self.members, found)
        last = self.epochs == self.config.max_epochs
        look = last or self.epochs % self.look_every == 0
        if look:
            finished = self.stopping.finished(self.epochs) | last
            if int(finished.sum()) >= max(1, self.together * len(self.members)):
                self.leave(finished)
        return look

    def begin(self) -> None:
        """Turn to the next epoch."""
        self.epochs += 1
        self.now.fill_(self.epochs)
        self.rng.seek(self.epochs)

    def step(self) -> None:
        """One step of Adam on every run's objective."""
        learning = tuple(self.model.is_trainable(parameter, self.epochs) for parameter in self.model.parameters())
        for parameter, is_trainable in zip(self.model.parameters(), learning, strict=True):
            parameter.requires_grad_(is_trainable)
        if learning not in self._steps:
            self._steps[learning] = CUDAGraphRunner(self._memory)
        self._steps[learning](self._step, record=self._rehearsed)

    @property
    def _rehearsed(self) -> bool:
        """Whether each kind of step was done as it stands, so that none has to while memory is held by a recording.

        One that comes more seldom than the host looks at the runs is not waited for.
        """
        return self.epochs > self._rehearsing_since + min(self.model.cycle, self.look_every)

    def _step(self) -> None:
        self.rng.rewind()
        self.optimiser.zero_grad()  # of an attempt that failed
        outcome = self.model.at(self.train.index, self.graph, self.rng)
        self.loss(outcome).sum().backward()
        self._learned()
        self.optimiser.step()
        self.optimiser.zero_grad()  # to None: a parameter that did not learn does not move, momentum included

    def loss(self, outcome: PropagationOutput) -> Tensor:
        """The objective, one value per run."""
        return objective(self.model, outcome, self.train, l2=self.config.l2)

    def _learned(self) -> None:
        """The gradients of a step are there."""

    def assess(self) -> Evaluation:
        """Evaluate every run, and keep the weights of those that are at their best."""
        return self._assessment(self._assess, record=self._rehearsed)

    def _assess(self) -> Evaluation:
        found = self.evaluate()
        self.snapshot_best(self.stopping.update(self.now, found.stopping_accuracy, self.monitored_loss(found)))
        return found

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        outcome = self.model(self.graph)
        return Evaluation(
            training_loss=self.loss(outcome),
            stopping_loss=self.stop.cross_entropy(outcome.output),
            stopping_accuracy=self.stop.accuracy(outcome.output),
            steps_mean=outcome.steps.float().mean(1),
        )

    @torch.no_grad()
    def monitored_loss(self, found: Evaluation) -> Tensor:
        """The loss that patience and ties look at."""
        if self.config.monitor == "training":
            return found.training_loss
        if self.config.monitor == "regularised":
            return found.stopping_loss + regularisation(self.model, l2=self.config.l2)
        return found.stopping_loss

    @torch.no_grad()
    def snapshot_best(self, at_best: Tensor) -> None:
        """Copy the weights of the runs that are at their best."""
        if self.device.type == "cpu" and not at_best.any():
            return
        self.best_epochs.copy_(torch.where(at_best, self.now, self.best_epochs))
        for name, weight in self.model.named_parameters():
            chosen = at_best.view(-1, *[1] * (weight.ndim - 1))
            self.best[name].copy_(torch.where(chosen, weight, self.best[name]))

    @torch.no_grad()
    def leave(self, finished: Tensor) -> None:
        """Go on without the finished runs."""
        self._forget_records()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # what was recorded held memory
        leaving = self.members[finished]
        ends = (self.stopping.last_improvement + self.config.patience).clamp(max=self.config.max_epochs)
        self.lasted[:, leaving.cpu().numpy()] = torch.stack([self.best_epochs, ends])[:, finished].cpu().numpy()
        staying = (~finished).nonzero().squeeze(1)
        for name, best in self.best.items():
            self.kept[name][leaving] = best[finished]
            self.best[name] = best[staying]
        self.members, self.best_epochs = self.members[staying], self.best_epochs[staying]
        self.rng.select(staying)
        self.stopping.select(staying)
        self.train, self.stop = self.train.select(staying), self.stop.select(staying)
        for parameter in self.model.parameters():
            state = self.optimiser.state[parameter]
            for moment in ("exp_avg", "exp_avg_sq"):
                if moment in state:
                    state[moment] = state[moment][staying]
            parameter.data = parameter.data[staying]

    def progress(self) -> Progress:
        ends = (self.stopping.last_improvement + self.config.patience).clamp(max=self.config.max_epochs)
        shares = (self.epochs / ends).clamp(max=1).cpu()
        left = len(self.runs) - len(self.members)
        return Progress(self.epochs, left + int((shares == 1).sum()), (left + float(shares.sum())) / len(self.runs))

    @torch.no_grad()
    def answers(self) -> PropagationOutput:
        """What every run says with its best weights, when all have left."""
        for name, weight in self.model.named_parameters():
            weight.data = self.kept[name]
        return self.model(self.graph)

    def results(self) -> list[RunResult]:
        """Every run with its best weights, evaluated once more."""
        logits, steps, remainder = (value.cpu().numpy() for value in self.answers())
        return self.results_of(logits, steps, remainder, self.graph.labels.cpu().numpy())

    def results_of(
        self, logits: np.ndarray, steps: np.ndarray, remainder: np.ndarray, labels: np.ndarray
    ) -> list[RunResult]:
        """Every run with what its best weights say, (runs, nodes, ...)."""
        best_epochs, epochs = self.lasted.tolist()
        histories = self.history.of_each_run(epochs)
        return [
            RunResult(
                run=run,
                logits=logits[number],
                steps=steps[number],
                remainder=remainder[number],
                weights={name: weight[number : number + 1].cpu().clone() for name, weight in self.kept.items()},
                history=histories[number],
                best_epoch=best_epochs[number],
                labels=labels,
            )
            for number, run in enumerate(self.runs)
        ]
