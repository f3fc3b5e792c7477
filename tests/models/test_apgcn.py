import math

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph
from scipy import sparse

from apgcn import APGCNConfig, Graph
from apgcn.errors import InvalidInput
from apgcn.nn.layers import dropout
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


def with_sparse_features(graph: Graph) -> Graph:
    """The same graph with sparse features."""
    return Graph(graph.adjacency, features=sparse.csr_matrix(graph.features), labels=graph.labels)


def test_initial_weights_are_those_of_torch_linear():
    graph = DeviceGraph.from_graph(random_graph(20, edges=30, features=9))
    model = APGCNConfig(hidden_channels=400).build(graph, RandomStream([1, 2]))
    bound = 1 / math.sqrt(9)
    for weight in (model.predict.first.weight, model.predict.first.bias):
        assert weight.abs().max() <= bound
        assert abs(weight.std().item() - bound / math.sqrt(3)) < 0.02  # uniform
    assert model.predict.second.weight.abs().max() <= 1 / math.sqrt(400)
    assert not torch.equal(model.predict.first.weight[0], model.predict.first.weight[1])


def test_dense_and_sparse_features_agree():
    graph = random_graph(20, edges=30)
    graphs = [DeviceGraph.from_graph(variant) for variant in (graph, with_sparse_features(graph))]
    dense, sparse_ = (APGCNConfig().build(variant, RandomStream([1, 2]))(variant) for variant in graphs)
    torch.testing.assert_close(dense.output, sparse_.output)
    assert torch.equal(dense.steps, sparse_.steps)


def test_dense_and_sparse_features_give_the_same_gradients():
    graph = random_graph(20, edges=30)
    gradients = []
    for variant in (graph, with_sparse_features(graph)):
        device_graph = DeviceGraph.from_graph(variant)
        model = APGCNConfig(dropout=0.0).build(device_graph, RandomStream([1, 2]))
        model(device_graph, RandomStream([3, 4])).output.square().sum().backward()
        gradients.append(model.predict.first.weight.grad)
    torch.testing.assert_close(*gradients)


def test_dropout_of_sparse_features_applies_to_stored_values_only():
    device_graph = DeviceGraph.from_graph(with_sparse_features(random_graph(50, edges=60, features=40)))
    dropped = dropout(device_graph.features, 0.5, RandomStream([1, 2]))
    assert dropped.structure is device_graph.features.structure
    assert dropped.masked_values.shape == (2, device_graph.features.structure.nnz)
    ratio = dropped.masked_values / device_graph.features.values
    assert set(ratio.unique().tolist()) == {0.0, 2.0}
    assert dropout(device_graph.features, 0.5, None) is device_graph.features


def test_without_edges_the_output_is_the_mlp():
    """Every step keeps z^0."""
    graph = random_graph(20, edges=0)
    device_graph = DeviceGraph.from_graph(graph)
    model = APGCNConfig().build(device_graph, RandomStream([1]))
    x = torch.from_numpy(graph.features.copy())
    hidden = torch.relu(x @ model.predict.first.weight[0] + model.predict.first.bias[0])
    expected = hidden @ model.predict.second.weight[0] + model.predict.second.bias[0]
    torch.testing.assert_close(model(device_graph).output[0], expected)


def test_training_drops_the_inputs_of_both_layers_and_the_initial_prediction():
    """The forward pass in training, computed by hand, with masks drawn in the order of the equation."""
    graph = random_graph(20, edges=0)  # no in-neighbours: every z^k is z^0
    device_graph = DeviceGraph.from_graph(graph)
    config = APGCNConfig(hidden_channels=8, dropout=0.25, edge_dropout=0.0, z0_dropout=0.5)
    model = config.build(device_graph, RandomStream([1]))
    rng = RandomStream([9])
    x = torch.from_numpy(graph.features.copy()) * rng.dropout_mask(20, 5, rate=0.25)
    hidden = torch.relu(x @ model.predict.first.weight + model.predict.first.bias) * rng.dropout_mask(20, 8, rate=0.25)
    z0 = (hidden @ model.predict.second.weight + model.predict.second.bias) * rng.dropout_mask(20, 3, rate=0.5)
    torch.testing.assert_close(model(device_graph, RandomStream([9])).output, z0)


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_channels": 7},
        {"dropout": 0.25},
        {"edge_dropout": 0.0},
        {"max_steps": 9},
        {"epsilon": 0.3},
        {"z0_dropout": 0.5},
        {"update_dropout": 0.5},
    ],
    ids=str,
)
def test_every_hyperparameter_changes_the_output(change):
    device_graph = DeviceGraph.from_graph(random_graph(20, edges=30))
    outputs = []
    for config in (APGCNConfig(), APGCNConfig(**change)):
        model = config.build(device_graph, RandomStream([1]))
        model.propagation.halting_unit.bias.data.fill_(-1.5)
        outputs.append(model(device_graph, RandomStream([2])).output)
    assert not torch.allclose(*outputs)


def test_permuting_nodes_permutes_predictions():
    graph = random_graph(20, edges=30)
    order = np.random.default_rng(0).permutation(20)
    permuted = Graph(graph.adjacency[order][:, order], features=graph.features[order], labels=graph.labels[order])
    outputs = []
    for variant in (graph, permuted):
        device_graph = DeviceGraph.from_graph(variant)
        outputs.append(APGCNConfig().build(device_graph, RandomStream([1]))(device_graph).output)
    torch.testing.assert_close(outputs[0][:, order], outputs[1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"penalty": -0.1}, r"penalty must be >= 0, got -0\.1"),
        ({"penalty": float("nan")}, "penalty must be finite, got nan"),
        ({"penalty": 10**400}, "penalty must be finite, got a number of 401 digits"),
        ({"max_steps": 0}, "max_steps must be >= 1, got 0"),
        ({"hidden_channels": 0}, "hidden_channels must be >= 1"),
        ({"hidden_channels": 2.5}, "hidden_channels must be an integer, got 2.5"),
        ({"hidden_channels": 10**30}, "hidden_channels must be <= 2147483647, got a number of 31 digits"),
        ({"penalty": "dear"}, "penalty must be a number, got 'dear'"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1\.0"),
        ({"epsilon": -0.5}, "epsilon must be in"),
    ],
)
def test_invalid_hyperparameters_are_rejected(values, message):
    with pytest.raises(InvalidInput, match=message):
        APGCNConfig(**values)
