"""Hyperparameter search for a user's graph, scored on labelled nodes that no trial trains or stops on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.fit import GRAPH_NAME
from apgcn.inference.splits import stratified_split
from apgcn.training.batching import train
from apgcn.training.config import configs_from_values
from apgcn.training.runs import Run
from apgcn.training.search_space import search, searchable_hyperparameters

VALIDATION_SIZE = 0.3  # fraction of the labelled nodes that scores a trial
NUM_SPLITS = 5  # splits of the labelled nodes, one run each, all in one run batch


class Trial(NamedTuple):
    """Hyperparameters and their score, the mean accuracy on validation nodes. Number 0 has the unchanged ones."""

    number: int
    hyperparameters: dict[str, Any]
    score: float


def tune(
    graph: Graph,
    split: Split,
    model: str,
    overrides: dict[str, Any],
    *,
    num_trials: int,
    seed: int = 0,
    device: torch.device | str = "cpu",
    threads: int | None = None,
    callback: Callable[[Trial], None] | None = None,
) -> list[Trial]:
    """Evaluate the hyperparameters as they are, then `num_trials` proposals; the best trial comes first.

    Parameters
    ----------
    split : Split
        Its test nodes are treated as unlabelled.
    model : str
        A name of the registry.
    overrides : dict
        Hyperparameters that are not searched.
    threads : int, optional
        Maximum number of CPU threads, see `apgcn.train`.
    callback : function, optional
        Called after each trial.
    """
    searchable = searchable_hyperparameters(model)
    names = [name for name in searchable if name not in overrides]
    if not names:
        raise InvalidInput(
            f"at least one hyperparameter of {model} must be left to search, but all of {', '.join(searchable)} are "
            "set; leave one out."
        )
    graph = _without_test_labels(graph, split)
    splits = [
        stratified_split(graph.labels, test_size=VALIDATION_SIZE, seed=seed + number) for number in range(NUM_SPLITS)
    ]
    if not len(splits[0].test):
        raise InvalidInput(
            "to search hyperparameters some class must have three labelled nodes; label more nodes, or do not tune."
        )

    def run_trial(number: int, proposal: dict[str, Any]) -> Trial:
        hyperparameters = overrides | proposal
        score = _mean_accuracy(graph, splits, model, hyperparameters, seed=seed, device=device, threads=threads)
        trial = Trial(number, hyperparameters, score)
        if callback:
            callback(trial)
        return trial

    return search(names, run_trial, num_trials=num_trials, seed=seed)


def _mean_accuracy(
    graph: Graph,
    splits: list[Split],
    model: str,
    hyperparameters: dict[str, Any],
    *,
    seed: int,
    device: torch.device | str,
    threads: int | None,
) -> float:
    runs = [Run(split, init=seed, dataset=graph.name) for split in splits]
    results = train(graph, runs, *configs_from_values(model, hyperparameters), device=device, threads=threads)
    accuracies = []
    for result, split in zip(results, splits, strict=True):
        correct = result.logits[split.test].argmax(1) == graph.labels[split.test]
        accuracies.append(correct.mean() if result.best_epoch > 0 else 0.0)  # 0 for a run that diverged
    return float(np.mean(accuracies))


def _without_test_labels(graph: Graph, split: Split) -> Graph:
    labels = graph.labels.copy()
    labels[split.test] = -1
    return replace(graph, labels=labels, name=GRAPH_NAME)
