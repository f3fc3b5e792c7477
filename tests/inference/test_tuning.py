"""Hyperparameter search on a user's graph."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import two_communities

from apgcn.errors import InvalidInput
from apgcn.inference.splits import stratified_split
from apgcn.inference.tuning import tune
from apgcn.training.search_space import searchable_hyperparameters


def test_search_returns_the_best_trial_first_and_ignores_test_labels():
    graph = two_communities()
    split = stratified_split(graph.labels, test_size=0.3)
    flipped = graph.labels.copy()
    flipped[split.test] = 1 - flipped[split.test]
    first, second = (
        tune(replace(graph, labels=labels), split, "apgcn", {"max_epochs": 30, "l2": 0.001}, num_trials=3)
        for labels in (graph.labels, flipped)
    )
    assert first == second
    assert [trial.score for trial in first] == sorted((trial.score for trial in first), reverse=True)
    assert {trial.hyperparameters["l2"] for trial in first} == {0.001}
    assert len({trial.hyperparameters.get("penalty") for trial in first}) == 4
    with pytest.raises(InvalidInput, match="at least one hyperparameter of gcn must be left to search"):
        tune(graph, split, "gcn", dict.fromkeys(searchable_hyperparameters("gcn"), 0.1), num_trials=1)
    few = np.where(np.arange(60) < 4, np.arange(60) % 2, -1)
    with pytest.raises(InvalidInput, match="some class must have three labelled nodes"):
        tune(replace(graph, labels=few), stratified_split(few), "apgcn", {}, num_trials=1)


def test_trial_that_diverged_has_score_zero():
    graph = two_communities()
    overrides = {"learning_rate": 1e30, "max_epochs": 5}
    results = tune(graph, stratified_split(graph.labels), "apgcn", overrides, num_trials=1)
    assert [trial.score for trial in results] == [0, 0]
