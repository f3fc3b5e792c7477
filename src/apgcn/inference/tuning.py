"""Which settings are best for one's own graph? Judged on labelled nodes that neither train nor stop a trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from apgcn.data.graph import Graph
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.fit import NAME
from apgcn.inference.splits import stratified_split
from apgcn.training.batching import train
from apgcn.training.config import split_config
from apgcn.training.runs import Run
from apgcn.training.search_space import Search, searched

JUDGING = 0.3  # of the labelled nodes judge a trial
DIVISIONS = 5  # ways to divide the labelled nodes, a run each, all in one pack


class Tried(NamedTuple):
    """Settings and their mean accuracy on the nodes that judged."""

    settings: dict[str, Any]
    accuracy: float


def tune(
    graph: Graph,
    split: Split,
    model: str,
    changes: dict[str, Any],
    *,
    trials: int,
    seed: int = 0,
    device: torch.device | str = "cpu",
    tell: Callable[[int, Tried], None] | None = None,
) -> list[Tried]:
    """Try the settings as they are, then `trials` others; the best comes first.

    What `changes` sets stays as it is. The split's test nodes have no say: here they have no label.

    Parameters
    ----------
    tell : function, optional
        Is told the number of a trial and what was found.
    """
    names = [name for name in searched(model) if name not in changes]
    if not names:
        raise InvalidInput(f"some setting must be left to search, but all of {', '.join(searched(model))} are set.")
    search = Search(names, seed=seed)
    graph = _without_test_labels(graph, split)
    divisions = [stratified_split(graph.labels, test=JUDGING, seed=seed + number) for number in range(DIVISIONS)]
    if not len(divisions[0].test):
        raise InvalidInput("to search settings some class must have three labelled nodes; label more, or leave it out.")
    done = []
    for number in range(trials + 1):
        settings = changes | (search.ask() if number else {})
        done.append(Tried(settings, _judged(graph, divisions, model, settings, seed=seed, device=device)))
        if number:
            search.tell(done[-1].accuracy)
        if tell:
            tell(number, done[-1])
    return sorted(done, key=lambda tried: -tried.accuracy)


def _judged(
    graph: Graph,
    divisions: list[Split],
    model: str,
    settings: dict[str, Any],
    *,
    seed: int,
    device: torch.device | str,
) -> float:
    runs = [Run(division, init=seed, dataset=graph.name) for division in divisions]
    results = train(graph, runs, *split_config(model, settings), device=device)
    shares = []
    for result, division in zip(results, divisions, strict=True):
        right = result.logits[division.test].argmax(1) == graph.labels[division.test]
        shares.append(right.mean() if result.best_epoch > 0 else 0.0)  # a training that diverged found nothing
    return float(np.mean(shares))


def _without_test_labels(graph: Graph, split: Split) -> Graph:
    labels = graph.labels.copy()
    labels[split.test] = -1
    return replace(graph, labels=labels, name=NAME)
