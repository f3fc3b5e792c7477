"""Lazy prediction with trained models: it equals a forward pass over the whole graph and costs less."""

import re
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph, two_communities
from scipy import sparse

from apgcn.errors import InvalidInput
from apgcn.inference import lazy_predictor
from apgcn.inference.bundle import ModelBundle
from apgcn.inference.fit import fit
from apgcn.inference.halting_benchmark import time_propagation
from apgcn.inference.known_labels import CorrectAndSmooth
from apgcn.inference.onnx import EnsembleModule
from apgcn.inference.splits import stratified_split
from apgcn.models.ap_variants import APAPPNPConfig, APARMAConfig
from apgcn.models.apgcn import APGCNConfig
from apgcn.models.gcn import GCNConfig
from apgcn.models.lp import LPConfig
from apgcn.models.mlp import MLPConfig
from apgcn.ops.dispatch import MAX_WIDTH
from apgcn.report.explain.payload import build_payload
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
    fewest = trained.predict(graph, minimize="operations")
    np.testing.assert_array_equal(fewest.probabilities, trained.predict(graph).probabilities)
    assert fewest.cost.messages <= trained.predict(graph).cost.messages
    with pytest.raises(InvalidInput, match="minimize must be 'time' or 'operations', got 'cost'"):
        trained.predict(graph, minimize="cost")
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


def test_z0_of_all_nodes_is_computed_once(monkeypatch):
    """Later predictions, of all nodes or of some, are the same and read no feature."""
    graph = two_communities()
    trained = fit(graph, stratified_split(graph.labels), APGCNConfig(), TrainingConfig(max_epochs=5), ensemble_size=2)
    predictor = trained.lazy_predictor(graph)
    some = np.array([7, 3, 41])
    before, after = predictor.predict(some), predictor.predict()
    monkeypatch.setattr(lazy_predictor, "features_to_device", None)
    np.testing.assert_array_equal(predictor.predict().probabilities, after.probabilities)
    np.testing.assert_allclose(predictor.predict(some).probabilities, before.probabilities, atol=1e-6)
    np.testing.assert_array_equal(predictor.predict(some).probabilities, after.probabilities[some])


def test_models_without_lazy_prediction_are_named_and_predict():
    graph = two_communities()
    for config in (APARMAConfig(), GCNConfig(), APGCNConfig(max_steps=256)):
        trained = fit(graph, stratified_split(graph.labels), config, TrainingConfig(max_epochs=2))
        with pytest.raises(InvalidInput, match=f"but the model is {config.title} with .*{config.max_steps} steps; use"):
            trained.lazy_predictor(graph)
        assert trained.predict(graph, [3]).probabilities.shape == (1, len(graph.class_names))


KERNELS_OF_A_WIDTH = (
    ("lazy", "steps_kernel"),
    ("halo_propagation", "_kernels"),
    ("mlp", "_kernels"),
    ("propagation", "_kernels"),
    ("spmm", "_spmm_kernels"),
)


@pytest.fixture
def widths(monkeypatch):
    """The widths for which kernels were requested; one that is too large fails the test at once."""
    widths = []
    for file, name in KERNELS_OF_A_WIDTH:
        module = import_module(f"apgcn.ops.kernels.cpu.{file}")

        def compile_if_narrow(*arguments, compile=getattr(module, name), **options):
            widths.extend(arguments)
            assert max(arguments) <= MAX_WIDTH
            return compile(*arguments, **options)

        monkeypatch.setattr(module, name, compile_if_narrow)
    return widths


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("config", [APGCNConfig(), APAPPNPConfig(freeze_halted=True), GCNConfig()])
def test_no_kernel_is_compiled_for_the_width_of_5000_classes(config, dense, widths):
    """Its compilation would take minutes."""
    graph = two_communities()
    few = fit(graph, stratified_split(graph.labels), config, TrainingConfig(max_epochs=1))
    few.predict(graph)
    assert widths or isinstance(config, GCNConfig)
    features = graph.features if dense else sparse.csr_matrix(graph.features)
    graph = replace(graph, features=features, class_names=tuple(f"class {number}" for number in range(5000)))
    trained = fit(graph, stratified_split(graph.labels), config, TrainingConfig(max_epochs=2))
    everywhere = trained.predict(graph)
    assert everywhere.probabilities.shape == (graph.num_nodes, 5000)
    np.testing.assert_array_equal(trained.predict(graph, [7, 3]).probabilities, everywhere.probabilities[[7, 3]])
    if isinstance(config, APGCNConfig):
        with pytest.raises(InvalidInput, match=r"at most 255 steps and 512 classes \(got 5,000\)"):
            trained.lazy_predictor(graph)


def test_memory_of_more_classes_than_a_kernel_supports_is_that_of_the_reference():
    graph = two_communities()
    for classes, saves in ((MAX_WIDTH, True), (MAX_WIDTH + 1, False)):
        graph = replace(graph, class_names=tuple(map(str, range(classes))))
        assert (APGCNConfig().floats_saved_by_kernels(graph) > 0) == saves


def test_no_command_compiles_a_kernel_for_5000_classes(widths):
    """The page, the exported module, the estimator, and models that use known labels."""
    names = tuple(f"class {number}" for number in range(5000))
    graph = replace(two_communities(), class_names=names)
    split = stratified_split(graph.labels)
    trained = fit(graph, split, APGCNConfig(), TrainingConfig(max_epochs=1))
    assert build_payload(ModelBundle(trained, graph))["classes"] == list(names)
    edges = graph.adjacency.tocoo()
    edge_index = torch.as_tensor(np.stack([edges.row, edges.col])).long()
    inputs = torch.as_tensor(graph.features.copy()), edge_index, torch.as_tensor(edges.data.copy())
    assert EnsembleModule(trained)(*inputs)[0].shape == (60, 5000)
    for config, correction in ((MLPConfig(), None), (LPConfig(), None), (APGCNConfig(), CorrectAndSmooth(steps=2))):
        model = replace(fit(graph, split, config, TrainingConfig(max_epochs=1)), correct_and_smooth=correction)
        assert model.predict(graph, np.array([1, 5])).probabilities.shape == (2, 5000)


def test_the_estimator_compiles_no_kernel_for_many_classes(widths):
    pytest.importorskip("sklearn")
    from apgcn import APGCNClassifier

    graph = random_graph(1200, edges=2000, classes=600)
    classifier = APGCNClassifier(max_epochs=1).fit(graph.features, graph.labels, adjacency=graph.adjacency)
    assert classifier.predict_proba().shape == (1200, 600)
