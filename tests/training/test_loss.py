import math

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph

from apgcn import APGCNConfig
from apgcn.errors import InvalidInput
from apgcn.nn.propagation import PropagationOutput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training.loss import Nodes, objective


def test_cross_entropy_and_accuracy_of_three_nodes_by_hand():
    labels = torch.tensor([0, 1, 1])
    nodes = Nodes.of([np.array([0, 1]), np.array([1, 2])], labels, what="training")
    logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [5.0, 5.0]], [[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]])
    surprise = lambda right, wrong: math.log(1 + math.exp(wrong - right))  # noqa: E731
    expected = [(surprise(2, 0) + surprise(1, 0)) / 2, (surprise(0, 3) + surprise(4, 0)) / 2]
    torch.testing.assert_close(nodes.cross_entropy(logits), torch.tensor(expected))
    assert nodes.accuracy(logits).tolist() == [1.0, 0.5]


def test_the_objective_is_the_sum_of_its_three_terms():
    graph = DeviceGraph.of(random_graph(20, edges=30))
    network = APGCNConfig(penalty=0.3).build(graph, RandomStream([1, 2]))
    train = Nodes.of([np.array([0, 3, 5]), np.array([2, 7, 9])], graph.labels, what="training")
    outcome = network(graph)
    value = objective(network, outcome, train, l2=0.4)
    for run, nodes in enumerate(([0, 3, 5], [2, 7, 9])):
        surprise = -torch.log_softmax(outcome.output[run, nodes], -1)[range(3), graph.labels[nodes]].mean()
        shrunk = 0.4 / 2 * (network.predict.first.weight[run] ** 2).sum()  # weights, no bias, first layer
        price = 0.3 * (outcome.steps[run, nodes] + outcome.remainder[run, nodes]).mean()
        torch.testing.assert_close(value[run], surprise + shrunk + price)


def test_only_training_nodes_pay_for_their_steps():
    graph = DeviceGraph.of(random_graph(20, edges=30))
    network = APGCNConfig(penalty=1.0).build(graph, RandomStream([1]))
    steps, remainder = torch.ones(1, 20), torch.zeros(1, 20)
    steps[0, 4] = 9
    outcome = PropagationOutput(torch.zeros(1, 20, 3), steps=steps, remainder=remainder)
    assert network.penalties(outcome, torch.tensor([[4, 5]])).item() == 5
    assert network.penalties(outcome, torch.tensor([[5, 6]])).item() == 1


def test_sets_of_a_pack_must_be_equally_large():
    with pytest.raises(InvalidInput, match=r"training sets of a pack must be equally large .* got \[2, 3\]"):
        Nodes.of([np.arange(2), np.arange(3)], torch.zeros(5, dtype=torch.int64), what="training")
