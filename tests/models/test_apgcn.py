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


def thin(graph: Graph) -> Graph:
    """The same graph with sparse features."""
    return Graph(graph.adjacency, features=sparse.csr_matrix(graph.features), labels=graph.labels)


def test_weights_start_like_torch_linear():
    graph = DeviceGraph.from_graph(random_graph(20, edges=30, features=9))
    network = APGCNConfig(hidden_channels=400).build(graph, RandomStream([1, 2]))
    bound = 1 / math.sqrt(9)
    for weight in (network.predict.first.weight, network.predict.first.bias):
        assert weight.abs().max() <= bound
        assert abs(weight.std().item() - bound / math.sqrt(3)) < 0.02  # uniform
    assert network.predict.second.weight.abs().max() <= 1 / math.sqrt(400)
    assert not torch.equal(network.predict.first.weight[0], network.predict.first.weight[1])


def test_dense_and_sparse_features_agree():
    graph = random_graph(20, edges=30)
    networks = [(DeviceGraph.from_graph(one), APGCNConfig()) for one in (graph, thin(graph))]
    dense, sparse_ = (config.build(tensors, RandomStream([1, 2]))(tensors) for tensors, config in networks)
    torch.testing.assert_close(dense.output, sparse_.output)
    assert torch.equal(dense.steps, sparse_.steps)


def test_dense_and_sparse_features_give_the_same_gradients():
    graph = random_graph(20, edges=30)
    gradients = []
    for one in (graph, thin(graph)):
        tensors = DeviceGraph.from_graph(one)
        network = APGCNConfig(dropout=0.0).build(tensors, RandomStream([1, 2]))
        network(tensors, RandomStream([3, 4])).output.square().sum().backward()
        gradients.append(network.predict.first.weight.grad)
    torch.testing.assert_close(*gradients)


def test_dropout_of_sparse_features_touches_stored_values_alone():
    tensors = DeviceGraph.from_graph(thin(random_graph(50, edges=60, features=40)))
    dropped = dropout(tensors.features, 0.5, RandomStream([1, 2]))
    assert dropped.structure is tensors.features.structure
    assert dropped.masked_values.shape == (2, tensors.features.structure.nnz)
    ratio = dropped.masked_values / tensors.features.values
    assert set(ratio.unique().tolist()) == {0.0, 2.0}
    assert dropout(tensors.features, 0.5, None) is tensors.features


def test_the_forward_pass_is_the_equation_with_listening_switched_off():
    """Without edges every step keeps z^0, so the output is the two-layer network."""
    graph = random_graph(20, edges=0)
    tensors = DeviceGraph.from_graph(graph)
    network = APGCNConfig().build(tensors, RandomStream([1]))
    x = torch.from_numpy(graph.features.copy())
    hidden = torch.relu(x @ network.predict.first.weight[0] + network.predict.first.bias[0])
    expected = hidden @ network.predict.second.weight[0] + network.predict.second.bias[0]
    torch.testing.assert_close(network(tensors).output[0], expected)


def test_training_drops_the_inputs_of_both_layers_and_the_seeds():
    """The forward pass with noise, worked by hand, with masks read off the tape in the order of the equation."""
    graph = random_graph(20, edges=0)  # nobody to hear: every z^k is z^0
    tensors = DeviceGraph.from_graph(graph)
    config = APGCNConfig(hidden_channels=6, dropout=0.25, edge_dropout=0.0, z0_dropout=0.5)
    network = config.build(tensors, RandomStream([1]))
    tape = RandomStream([9])
    x = torch.from_numpy(graph.features.copy()) * tape.dropout_mask(20, 5, rate=0.25)
    hidden = torch.relu(x @ network.predict.first.weight + network.predict.first.bias) * tape.dropout_mask(
        20, 6, rate=0.25
    )
    z0 = (hidden @ network.predict.second.weight + network.predict.second.bias) * tape.dropout_mask(20, 3, rate=0.5)
    torch.testing.assert_close(network(tensors, RandomStream([9])).output, z0)


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
def test_every_setting_reaches_the_network(change):
    tensors = DeviceGraph.from_graph(random_graph(20, edges=30))
    outputs = []
    for config in (APGCNConfig(), APGCNConfig(**change)):
        network = config.build(tensors, RandomStream([1]))
        network.propagation.halting_unit.bias.data.fill_(-1.5)
        outputs.append(network(tensors, RandomStream([2])).output)
    assert not torch.allclose(*outputs)


def test_renaming_nodes_renames_predictions():
    graph = random_graph(20, edges=30)
    order = np.random.default_rng(0).permutation(20)
    renamed = Graph(graph.adjacency[order][:, order], features=graph.features[order], labels=graph.labels[order])
    outputs = []
    for one in (graph, renamed):
        tensors = DeviceGraph.from_graph(one)
        outputs.append(APGCNConfig().build(tensors, RandomStream([1]))(tensors).output)
    torch.testing.assert_close(outputs[0][:, order], outputs[1])


@pytest.mark.parametrize(
    ("config", "sentence"),
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
def test_impossible_settings_are_told_in_words(config, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        APGCNConfig(**config)
