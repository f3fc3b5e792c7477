"""How does a pack of runs train? As one tensor program that each run leaves when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from apgcn.devices import return_free_memory
from apgcn.models.network import ModelSettings, Network
from apgcn.noise import Noise
from apgcn.tensors import GraphTensors
from apgcn.training.history import Evaluation, HistoryLog
from apgcn.training.objective import Nodes, objective, regularisation
from apgcn.training.result import RunResult
from apgcn.training.runs import Run
from apgcn.training.settings import TrainingSettings
from apgcn.training.solving import solved
from apgcn.training.stopping import EarlyStopping

TIDY_EVERY = 20  # epochs: costs nothing that can be measured


class Progress(NamedTuple):
    """Where the training is after an epoch.

    `done` counts the runs that have stopped. `share` is what part of all the epochs is behind us at most: each of the
    other runs is taken to stop as soon as its patience allows.
    """

    epoch: int
    done: int
    share: float


def train_pack(
    graph: GraphTensors,
    runs: Sequence[Run],
    model: ModelSettings,
    training: TrainingSettings,
    progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Train runs together, each as if it were alone, until the last has stopped.

    A model without weights is not trained: it answers at once.
    """
    if not model.has_weights:
        return solved(graph, runs, model)
    pack = Pack(graph, runs, model, training)
    while pack.going:
        pack.epoch()
        if pack.epochs % TIDY_EVERY == 0 and graph.labels.device.type == "cpu":
            return_free_memory()
        if progress:
            progress(pack.progress())
    return pack.results()


class Pack:
    """Runs in training.

    The order of an epoch: a step of the objective, with dropout; an evaluation, without; each run that is at its best
    keeps a copy of its weights; each run that has lost its patience leaves.
    """

    def __init__(self, graph: GraphTensors, runs: Sequence[Run], model: ModelSettings, training: TrainingSettings):
        self.graph, self.runs, self.settings = graph, list(runs), training
        device = graph.labels.device
        self.noise = Noise([run.noise_seed for run in runs], device=device)
        self.model: Network = model.build(graph, self.noise)
        self.optimiser = torch.optim.Adam(self.model.parameters(), lr=training.learning_rate, fused=True)
        self.stopping = EarlyStopping(len(runs), patience=training.patience, stop_on=training.stop_on, device=device)
        self.train = Nodes.of([run.split.train for run in runs], graph.labels, what="training")
        self.stop = Nodes.of([run.split.stopping for run in runs], graph.labels, what="stopping")
        self.members = torch.arange(len(runs), device=device)  # which run stands where in the pack
        self.best = {name: weight.detach().clone() for name, weight in self.model.named_parameters()}
        self.best_epochs = torch.zeros(len(runs), dtype=torch.int64, device=device)
        self.history = HistoryLog(len(runs))
        self.epochs = 0

    @property
    def going(self) -> bool:
        return len(self.members) > 0

    def epoch(self) -> None:
        self.epochs += 1
        self.step()
        found = self.evaluate()
        self.history.append(self.members, found)
        self.remember(self.stopping.update(self.epochs, found.stopping_accuracy, self.watched(found)))
        finished = self.stopping.finished(self.epochs)
        if self.epochs == self.settings.max_epochs:
            finished = torch.ones_like(finished)
        if finished.any():
            self.leave(finished)

    def watched(self, found: Evaluation) -> Tensor:
        """The loss that patience and ties look at."""
        if self.settings.watch == "training":
            return found.training_loss
        if self.settings.watch == "regularised":
            return found.stopping_loss + regularisation(self.model, l2=self.settings.l2)
        return found.stopping_loss

    def step(self) -> None:
        """One step of Adam on every run's objective."""
        self.noise.seek(self.epochs)
        for parameter in self.model.parameters():
            parameter.requires_grad_(self.model.learns(parameter, self.epochs))
        outcome = self.model.at(self.train.index, self.graph, self.noise)
        objective(self.model, outcome, self.train, l2=self.settings.l2).sum().backward()
        self.optimiser.step()
        self.optimiser.zero_grad()  # to None: a parameter that did not learn does not move, momentum included

    @torch.no_grad()
    def evaluate(self) -> Evaluation:
        outcome = self.model(self.graph)
        return Evaluation(
            training_loss=objective(self.model, outcome, self.train, l2=self.settings.l2),
            stopping_loss=self.stop.cross_entropy(outcome.output),
            stopping_accuracy=self.stop.accuracy(outcome.output),
            steps_mean=outcome.steps.float().mean(1),
        )

    @torch.no_grad()
    def remember(self, at_best: Tensor) -> None:
        """Copy the weights of the runs that are at their best."""
        if at_best.any():
            members = self.members[at_best]
            self.best_epochs[members] = self.epochs
            for name, weight in self.model.named_parameters():
                self.best[name][members] = weight[at_best]

    @torch.no_grad()
    def leave(self, finished: Tensor) -> None:
        """Go on without the finished runs."""
        staying = (~finished).nonzero().squeeze(1)
        self.members = self.members[staying]
        self.noise.select(staying)
        self.stopping.select(staying)
        self.train, self.stop = self.train.select(staying), self.stop.select(staying)
        for parameter in self.model.parameters():
            state = self.optimiser.state[parameter]
            for moment in ("exp_avg", "exp_avg_sq"):
                if moment in state:
                    state[moment] = state[moment][staying]
            parameter.data = parameter.data[staying]

    def progress(self) -> Progress:
        done = len(self.runs) - len(self.members)
        ends = self.stopping.last_improvement + self.settings.patience
        share = done + float((self.epochs / ends.clamp(max=self.settings.max_epochs)).sum())
        return Progress(self.epochs, done, share / len(self.runs))

    @torch.no_grad()
    def results(self) -> list[RunResult]:
        """Every run with its best weights, evaluated once more."""
        for name, weight in self.model.named_parameters():
            weight.data = self.best[name]
        logits, steps, remainder = (value.cpu().numpy() for value in self.model(self.graph))
        labels = self.graph.labels.cpu().numpy()
        histories = self.history.of_each_run()
        return [
            RunResult(
                run=run,
                logits=logits[number],
                steps=steps[number],
                remainder=remainder[number],
                weights={name: weight[number : number + 1].cpu().clone() for name, weight in self.best.items()},
                history=histories[number],
                best_epoch=int(self.best_epochs[number]),
                labels=labels,
            )
            for number, run in enumerate(self.runs)
        ]
