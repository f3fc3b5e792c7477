"""Training of a model for a user's graph: an ensemble of initialisations, calibrated and evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import softmax

from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.evaluation import evaluate, evaluate_split, fit_temperature
from apgcn.inference.predictions import Predictions
from apgcn.inference.trained_model import MIN_PROBABILITY, TrainedModel, sharpen
from apgcn.models.base import ModelConfig
from apgcn.training.batching import train
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import Run
from apgcn.training.trainer import Progress

HELD_OUT = ("stopping", "validation", "test")
GRAPH_NAME = "graph"  # in the key of each run: the name that a user gives the graph must not change the random numbers


class FitResult(NamedTuple):
    """A trained model, its predictions for all nodes, and the predicted classes of the held-out nodes.

    Attributes
    ----------
    model : TrainedModel
    predictions : Predictions or None
        None where predicting takes more work than the training has done.
    held_out : dict
        By the name of a set of the split, the classes predicted for its nodes without using the labels of that set.
    """

    model: TrainedModel
    predictions: Predictions | None
    held_out: dict[str, np.ndarray]


def fit(
    graph: Graph,
    split: Split,
    model: ModelConfig,
    training: TrainingConfig,
    *,
    ensemble_size: int = 1,
    seed: int = 0,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> TrainedModel:
    """Train a model on a user's graph.

    Parameters
    ----------
    graph : Graph
    split : Split
        See `stratified_split`. Its stopping nodes also fit the temperature.
    model : ModelConfig
        Such as `APGCNConfig()`.
    training : TrainingConfig
    ensemble_size : int
        Number of initialisations, which are trained as one run batch; those that diverge are left out.
    seed : int
        The first initialisation.
    device : "cpu" or "cuda"
    threads : int, optional
        Maximum number of CPU threads, see `apgcn.train`.
    progress : function, optional
        See `apgcn.train`.

    Raises
    ------
    InvalidInput
        If all initialisations diverged.
    """
    return fit_predict(
        graph,
        split,
        model,
        training,
        ensemble_size=ensemble_size,
        seed=seed,
        device=device,
        threads=threads,
        progress=progress,
    )[0]


def fit_predict(
    graph: Graph,
    split: Split,
    model: ModelConfig,
    training: TrainingConfig,
    *,
    ensemble_size: int = 1,
    seed: int = 0,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[TrainedModel, Predictions]:
    """`fit`, and the predictions for all nodes."""
    result = fit_and_evaluate(
        graph,
        split,
        model,
        training,
        ensemble_size=ensemble_size,
        seed=seed,
        device=device,
        threads=threads,
        progress=progress,
    )
    return result.model, result.predictions or result.model.predict(graph, device=device, threads=threads)


def fit_and_evaluate(
    graph: Graph,
    split: Split,
    model: ModelConfig,
    training: TrainingConfig,
    *,
    ensemble_size: int = 1,
    seed: int = 0,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    time_limit: float | None = None,
) -> FitResult:
    """`fit`, with what the training knows already: predictions for all nodes, and those of the held-out nodes."""
    if not model.has_weights:
        metrics = {"epochs": [1], "best_epoch": [1], "diverged": 0, "converged": True}
        return evaluate_with_labels(
            TrainedModel(model, training, {}, graph.class_names, graph.num_features, split, metrics=metrics),
            graph,
            device=device,
            threads=threads,
        )
    graph = replace(graph, name=GRAPH_NAME)
    runs = [Run(split, init=seed + number, dataset=graph.name) for number in range(ensemble_size)]
    results = train(
        graph, runs, model, training, device=device, threads=threads, progress=progress, time_limit=time_limit
    )
    finite = [result for result in results if result.best_epoch > 0]
    if not finite:
        raise InvalidInput("the loss was never finite; make learning_rate or l2 smaller, or scale the features.")
    logits = np.stack([result.logits for result in finite])
    temperature = fit_temperature(logits[:, split.stopping], graph.labels[split.stopping])
    predictions = Predictions.from_ensemble(
        softmax(logits / temperature, axis=-1),
        np.stack([result.steps for result in finite]),
        np.stack([result.remainder for result in finite]),
    )
    trained_model = TrainedModel(
        config=model,
        training=training,
        weights={name: torch.cat([result.weights[name] for result in finite]) for name in finite[0].weights},
        class_names=graph.class_names,
        num_features=graph.num_features,
        split=split,
        temperature=temperature,
        metrics={
            "epochs": [result.epochs for result in finite],
            "best_epoch": [result.best_epoch for result in finite],
            "diverged": len(results) - len(finite),
            "converged": all(result.converged for result in finite),
            **evaluate_split(predictions, graph, split),
        },
    )
    held_out = {name: predictions.classes[getattr(split, name)] for name in HELD_OUT}
    return FitResult(trained_model, predictions, held_out)


def evaluate_with_labels(
    trained: TrainedModel,
    graph: Graph,
    *,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    calibrate: bool = True,
) -> FitResult:
    """A model that predicts from known labels, calibrated and evaluated on the held-out nodes of its split.

    Without `calibrate` the stopping nodes, which take most of the time, are left out if there is a test set: enough for
    accuracies that compare models.

    The labels of a set are not used to evaluate that set: validation nodes are predicted from the labels of training
    and stopping nodes, test nodes from those of all other sets. A stopping node is predicted from the labels of
    training nodes and of other stopping nodes, never from its own.
    """
    split = trained.split
    known: dict[str, tuple[str, ...]] = {
        "stopping": ("train", "stopping"),
        "validation": ("train", "stopping"),
        "test": ("train", "stopping", "validation"),
    }
    if not calibrate and len(split.test):
        del known["stopping"]
    uncalibrated = replace(trained, temperature=1.0)
    uncorrected = uncalibrated.predict_without_labels(graph, device=device, threads=threads)
    probabilities = {
        name: uncalibrated.predict_with_labels(
            with_labels_of(graph, split, sets),
            getattr(split, name),
            device=device,
            threads=threads,
            uncorrected=uncorrected,
        ).probabilities
        for name, sets in known.items()
    }
    temperature = 1.0
    if "stopping" in known:
        logits = np.log(np.maximum(probabilities["stopping"], MIN_PROBABILITY))
        temperature = fit_temperature(logits[None], graph.labels[split.stopping])
    metrics = {
        name: evaluate(sharpen(rows, temperature), graph.labels[getattr(split, name)])
        for name, rows in probabilities.items()
    }
    calibrated = replace(trained, temperature=temperature, metrics={**trained.metrics, **metrics})
    return FitResult(calibrated, None, {name: rows.argmax(axis=1) for name, rows in probabilities.items()})


def with_labels_of(graph: Graph, split: Split, sets: Sequence[str]) -> Graph:
    """The graph with the labels of some sets of a split only."""
    nodes = np.concatenate([getattr(split, name) for name in sets])
    labels = np.full(graph.num_nodes, -1)
    labels[nodes] = graph.labels[nodes]
    return replace(graph, labels=labels)
