"""Lazy prediction with trained models: it equals a forward pass over the whole graph and costs less."""

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import two_communities
from scipy import sparse

from apgcn.errors import InvalidInput
from apgcn.inference.fit import fit
from apgcn.inference.halting_benchmark import time_propagation
from apgcn.inference.splits import stratified_split
from apgcn.models.ap_variants import APAPPNPConfig, APARMAConfig
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.gcn import GCNConfig
from apgcn.training.config import TrainingConfig


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        APGCNConfig(penalty=0.05),
        APGCNConfig(penalty=0.05, freeze_halted=True),
        APAPPNPConfig(penalty=0.05, teleport=0.3),
        APAPPNPConfig(penalty=0.05, freeze_halted=True),
    ],
)
def test_lazy_prediction_equals_a_full_forward_pass(config, dense):
    """For all nodes and for some, averaged over an ensemble of two."""
    graph = two_communities()
    if not dense:
        graph = replace(graph, features=sparse.csr_matrix(graph.features))
    split = stratified_split(graph.labels)
    trained = fit(graph, split, config, TrainingConfig(max_epochs=150), ensemble_size=2)
    full = trained._predict_all(graph, "cpu")
    assert len(np.unique(full.steps)) > 2
    some = np.array([5, 0, 59])
    for lazy, expected in ((trained.predict(graph), full), (trained.predict(graph, some), full.select(some))):
        np.testing.assert_allclose(lazy.probabilities, expected.probabilities, atol=2e-5)
        np.testing.assert_array_equal(lazy.steps, expected.steps)
        np.testing.assert_allclose(lazy.remainder, expected.remainder, atol=2e-5)
        assert 0 < lazy.cost.messages < lazy.full_cost.messages
    timing = time_propagation(trained.lazy_predictor(graph), repeats=1)
    assert timing.cost == trained.predict(graph).cost
    assert 0 < timing.seconds
    assert re.search(r"; the propagation took [\d.]+ ms against [\d.]+ ms for all steps of all nodes$", str(timing))
    for nodes, message in (
        ([1, 1], "some are named twice"),
        ([-1], "numbers from 0 to 59, got -1"),
        ([0, 60], "numbers from 0 to 59, got 60"),
        (graph.labels == 0, "must be a list of integers, got bool"),
        ([[1]], "must be a list of integers, got int64 of shape"),
    ):
        with pytest.raises(InvalidInput, match=message):
            trained.predict(graph, nodes)
    assert trained.predict(graph, []).probabilities.shape == (0, len(graph.class_names))


@pytest.mark.parametrize("dense", [False, True])
def test_z0_of_some_nodes_is_that_of_the_model(dense):
    graph = two_communities()
    if not dense:
        graph = replace(graph, features=sparse.csr_matrix(graph.features))
    trained = fit(graph, stratified_split(graph.labels), APGCNConfig(), TrainingConfig(max_epochs=5), ensemble_size=2)
    model, device_graph = trained.build(graph)
    expected = model.predict(device_graph.features).detach().numpy()
    predictor = trained.lazy_predictor(graph)
    for nodes in (np.arange(60), np.array([7, 3, 41]), np.random.default_rng(0).permutation(60)):
        for number in range(2):
            np.testing.assert_allclose(predictor.z0(nodes, number), expected[number, nodes], atol=1e-6)


def test_models_without_lazy_prediction_are_named_and_predict():
    graph = two_communities()
    for config in (APARMAConfig(), GCNConfig(), APGCNConfig(max_steps=256)):
        trained = fit(graph, stratified_split(graph.labels), config, TrainingConfig(max_epochs=2))
        with pytest.raises(InvalidInput, match=f"but the model is {config.title} with {config.max_steps} steps; use"):
            trained.lazy_predictor(graph)
        assert trained.predict(graph, [3]).probabilities.shape == (1, len(graph.class_names))
