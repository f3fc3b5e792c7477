"""The loss and its terms, worked by hand."""

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
from apgcn.training.loss import NodeSet, training_loss


def test_cross_entropy_and_accuracy_of_three_nodes_by_hand():
    labels = torch.tensor([0, 1, 1])
    nodes = NodeSet.stack([np.array([0, 1]), np.array([1, 2])], labels, name="training")
    logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [5.0, 5.0]], [[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]])
    cross_entropy = lambda right, wrong: math.log(1 + math.exp(wrong - right))  # noqa: E731
    expected = [(cross_entropy(2, 0) + cross_entropy(1, 0)) / 2, (cross_entropy(0, 3) + cross_entropy(4, 0)) / 2]
    torch.testing.assert_close(nodes.cross_entropy(logits), torch.tensor(expected))
    assert nodes.accuracy(logits).tolist() == [1.0, 0.5]


def test_the_loss_is_the_sum_of_its_three_terms():
    graph = DeviceGraph.from_graph(random_graph(20, edges=30))
    model = APGCNConfig(penalty=0.3).build(graph, RandomStream([1, 2]))
    train = NodeSet.stack([np.array([0, 3, 5]), np.array([2, 7, 9])], graph.labels, name="training")
    output = model(graph)
    value = training_loss(model, output, train, l2=0.4)
    for run, nodes in enumerate(([0, 3, 5], [2, 7, 9])):
        cross_entropy = -torch.log_softmax(output.output[run, nodes], -1)[range(3), graph.labels[nodes]].mean()
        l2_term = 0.4 / 2 * (model.predict.first.weight[run] ** 2).sum()  # weights, no bias, first layer
        penalty_term = 0.3 * (output.steps[run, nodes] + output.remainder[run, nodes]).mean()
        torch.testing.assert_close(value[run], cross_entropy + l2_term + penalty_term)


def test_only_training_nodes_contribute_to_the_penalty():
    graph = DeviceGraph.from_graph(random_graph(20, edges=30))
    model = APGCNConfig(penalty=1.0).build(graph, RandomStream([1]))
    steps, remainder = torch.ones(1, 20), torch.zeros(1, 20)
    steps[0, 4] = 9
    output = PropagationOutput(torch.zeros(1, 20, 3), steps=steps, remainder=remainder)
    assert model.penalty_loss(output, torch.tensor([[4, 5]])).item() == 5
    assert model.penalty_loss(output, torch.tensor([[5, 6]])).item() == 1


def test_sets_of_a_batch_must_be_equally_large():
    with pytest.raises(InvalidInput, match=r"training sets of a run batch must be equally large .* got \[2, 3\]"):
        NodeSet.stack([np.arange(2), np.arange(3)], torch.zeros(5, dtype=torch.int64), name="training")
