"""Known labels at prediction time: Correct and Smooth against a dense loop, and no node from its own label."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph, two_communities

from apgcn import APGCNConfig, Graph, TrainingConfig
from apgcn.errors import InvalidInput
from apgcn.inference.fit import evaluate_with_labels, fit
from apgcn.inference.known_labels import CorrectAndSmooth, cross_fit
from apgcn.inference.splits import stratified_split
from apgcn.models.lp import LPConfig
from apgcn.ops.device_graph import DeviceGraph

SHORT = TrainingConfig(max_epochs=20)


def with_labels(graph: Graph, changes: dict[int, int]) -> Graph:
    labels = graph.labels.copy()
    for node, label in changes.items():
        labels[node] = label
    return replace(graph, labels=labels)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return two_communities()


@pytest.fixture(scope="module", params=["lp", "apgcn + C&S"])
def model(request, graph):
    """A model that predicts from known labels."""
    split = stratified_split(graph.labels, test_size=0.2)
    if request.param == "lp":
        return fit(graph, split, LPConfig(), TrainingConfig())
    trained = fit(graph, split, APGCNConfig(hidden_channels=8), SHORT)
    return replace(trained, correct_and_smooth=CorrectAndSmooth())


def test_correct_and_smooth_equals_a_dense_loop():
    graph = DeviceGraph.from_graph(random_graph(12, edges=20))
    a = graph.adjacency.normalized.to_dense().double().numpy()
    random = np.random.default_rng(1)
    probabilities = random.dirichlet(np.ones(3), size=12)
    known = np.array([0, 3, 5, 8])
    labels = graph.labels.numpy()
    parameters = CorrectAndSmooth(correction=0.7, smoothing=0.6, steps=4)
    actual = parameters.apply(
        torch.tensor(probabilities, dtype=torch.float32), graph.labels, torch.as_tensor(known), graph.adjacency
    )
    e0 = np.zeros((12, 3))
    e0[known] = np.eye(3)[labels[known]] - probabilities[known]
    e = e0
    for _ in range(4):
        e = 0.7 * a @ e + 0.3 * e0
    mean_length = np.abs(e0[known]).sum(1).mean()
    g0 = probabilities.copy()
    for node in range(12):
        length = np.abs(e[node]).sum()
        g0[node] += e[node] * (mean_length / length if length > mean_length / 1000 else 1.0)
    g0[known] = np.eye(3)[labels[known]]
    g = g0
    for _ in range(4):
        g = 0.6 * a @ g + 0.4 * g0
    g = np.maximum(g, 0)
    expected = np.where(g.sum(1, keepdims=True) > 0, g / np.maximum(g.sum(1, keepdims=True), 1e-300), probabilities)
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-5)


def test_no_node_is_predicted_from_its_own_label():
    known, nodes = np.array([2, 3, 5, 7, 11, 13]), np.arange(15)
    used = {}

    def predict(labelled):
        rows = np.full(15, len(used))
        used[len(used)] = set(labelled.tolist())
        return rows

    ids = [f"node {number}" for number in range(15)]
    calls = cross_fit(predict, known, nodes, ids=ids)
    for node, call in zip(nodes.tolist(), calls.tolist(), strict=True):
        assert node not in used[call]
        assert (len(used[call]) == 6) == (node not in known)
    order = np.random.default_rng(0).permutation(15)  # another order of the rows is the same division
    used.clear()
    position = np.argsort(order)
    calls = cross_fit(predict, position[known], position[nodes], ids=[ids[node] for node in order])
    for node, call in zip(nodes.tolist(), calls.tolist(), strict=True):
        others = set(order[list(used[call])].tolist())
        assert node not in others
        assert (len(others) == 6) == (node not in known)


def test_another_label_of_a_node_does_not_change_its_own_prediction(model, graph):
    """But that of some other node."""
    before = model.predict(graph).probabilities
    for node in np.flatnonzero(graph.labels >= 0)[:6]:
        after = model.predict(with_labels(graph, {node: 1 - graph.labels[node]})).probabilities
        assert np.array_equal(after[node], before[node])
        assert not np.array_equal(after, before)


def test_labels_of_held_out_nodes_do_not_change_their_evaluation_set(model, graph):
    """Predictions of the test nodes use no label of a test node, so that they are those of an unlabelled set."""
    hidden = with_labels(graph, dict.fromkeys(model.split.test.tolist(), -1))
    result = evaluate_with_labels(model, graph)
    np.testing.assert_array_equal(model.predict(hidden, model.split.test).classes, result.held_out["test"])


def test_a_new_node_is_predicted_from_the_labels_near_it(graph):
    """Features of no use; its neighbours are all of one class."""
    model = fit(graph, stratified_split(graph.labels), LPConfig(), TrainingConfig())
    for label in (0, 1):
        neighbours = np.flatnonzero(graph.labels == label)[:4]
        adjacency = np.zeros((61, 61), np.float32)
        adjacency[:60, :60] = graph.adjacency.toarray()
        adjacency[60, neighbours] = adjacency[neighbours, 60] = 1
        extended = Graph(
            adjacency,
            features=np.vstack([graph.features, np.zeros((1, 2))]),
            labels=np.append(graph.labels, -1),
            class_names=graph.class_names,
        )
        assert model.predict(extended, np.array([60])).classes.tolist() == [label]


def test_without_known_labels_a_corrected_model_predicts_as_without_correction(graph):
    trained = fit(graph, stratified_split(graph.labels), APGCNConfig(hidden_channels=8), SHORT)
    unlabelled = replace(graph, labels=np.full(60, -1))
    corrected = replace(trained, correct_and_smooth=CorrectAndSmooth())
    np.testing.assert_array_equal(
        corrected.predict(unlabelled).probabilities, trained.predict(unlabelled).probabilities
    )
    model = fit(graph, stratified_split(graph.labels), LPConfig(), TrainingConfig())
    with pytest.raises(InvalidInput, match="must have labels of some nodes, from which LP predicts the others"):
        model.predict(unlabelled)


@pytest.mark.parametrize("values", [{"correction": 1.5}, {"smoothing": -0.1}, {"steps": 0}], ids=str)
def test_invalid_parameters_are_rejected(values):
    with pytest.raises(InvalidInput, match=f"{next(iter(values))} must be"):
        CorrectAndSmooth(**values)


def test_the_only_known_label_does_not_predict_its_own_node():
    """Without other labels all classes are alike; the probabilities were not numbers."""
    graph = two_communities()
    lp = fit(graph, stratified_split(graph.labels), LPConfig(), TrainingConfig())
    labels = np.full(60, -1)
    labels[7] = 1
    np.testing.assert_allclose(lp.predict(replace(graph, labels=labels)).probabilities[7], 0.5)


def test_the_order_of_the_nodes_changes_no_prediction():
    """Of labelled nodes, too: their folds follow from their ids."""
    graph = replace(two_communities(), node_names=tuple(f"n{number}" for number in range(60)))
    lp = fit(graph, stratified_split(graph.labels), LPConfig(), TrainingConfig())
    order = np.random.default_rng(0).permutation(60)
    permuted = Graph(
        graph.adjacency[order][:, order],
        features=graph.features[order],
        labels=graph.labels[order],
        class_names=graph.class_names,
        node_names=tuple(graph.node_names[node] for node in order),
    )
    before, after = lp.predict(graph).probabilities, lp.predict(permuted).probabilities
    np.testing.assert_allclose(after, before[order], atol=1e-6)
