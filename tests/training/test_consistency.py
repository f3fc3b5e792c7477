"""Consistency training: its term worked by hand, and its gradients beside a loop over runs and passes."""

import math
from dataclasses import replace

import pytest
import torch
from helpers.graphs import random_graph
from tests.training.test_batch_invariance import bits, make_runs
from torch.func import functional_call

from apgcn import APGCNConfig, TrainingConfig, train
from apgcn.cli import run
from apgcn.distributed.train import check_trainable_on_shards
from apgcn.errors import InvalidInput
from apgcn.models.registry import MODELS, config_class
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training.batching import bytes_per_run
from apgcn.training.consistency import consistency_distance, consistent_training_loss, forward_passes, sharpen
from apgcn.training.loss import NodeSet

TRAINED = sorted(name for name, config in MODELS.items() if config.has_weights)
CONSISTENT = TrainingConfig(
    l2=0.3, consistency=0.7, consistency_passes=3, consistency_warmup=10, temperature=0.4, confidence=0.35
)


def small_config(name):
    config = config_class(name)()
    return replace(config, hidden_channels=8) if hasattr(config, "hidden_channels") else config


def without_dropout(config):
    return replace(config, **{name: 0.0 for name in vars(config) if name.endswith("dropout")})


def test_one_pass_by_hand():
    """Two nodes of two classes; the target of the first, at temperature 1/2, is its distribution squared."""
    logits = torch.tensor([[[[math.log(3.0), 0.0], [0.0, 0.0]]]])  # (1 run, 1 pass, 2 nodes, 2 classes)
    first = (3 / 4 - 9 / 10) ** 2 + (1 / 4 - 1 / 10) ** 2  # p = (3/4, 1/4), its squares are 9 : 1
    both = consistency_distance(logits, temperature=0.5, confidence=0.0)
    torch.testing.assert_close(both, torch.tensor([first / 2]))  # the second is (1/2, 1/2), and so is its target
    confident = consistency_distance(logits, temperature=0.5, confidence=0.7)
    torch.testing.assert_close(confident, torch.tensor([first]))
    assert consistency_distance(logits, temperature=0.5, confidence=0.8).tolist() == [0.0]


def test_two_passes_by_hand():
    """p = (3/4, 1/4) and (1/4, 3/4): their mean is the uniform distribution, at any temperature."""
    logits = torch.tensor([[[[math.log(3.0), 0.0]], [[0.0, math.log(3.0)]]]])
    for temperature in (0.1, 1.0, 3.0):
        distance = consistency_distance(logits, temperature=temperature, confidence=0.5)
        torch.testing.assert_close(distance, torch.tensor([2 * 0.25**2]))


def test_certain_predictions_are_sharpened_without_nan():
    assert sharpen(torch.tensor([1.0, 0.0, 0.0]), 0.1).tolist() == [1.0, 0.0, 0.0]


def test_the_target_has_no_gradient():
    """The gradient of one pass is that of |p - t|^2 with a constant t."""
    logits = torch.randn(2, 1, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    consistency_distance(logits, temperature=0.3, confidence=0.0).sum().backward()
    constant = logits.detach().clone().requires_grad_()
    p = constant.softmax(-1)
    t = p.detach() ** (1 / 0.3)
    t = t / t.sum(-1, keepdim=True)
    ((p - t) ** 2).sum(-1).mean((1, 2)).sum().backward()
    torch.testing.assert_close(logits.grad, constant.grad)


def test_without_dropout_all_passes_are_the_evaluation():
    graph = DeviceGraph.from_graph(random_graph(20, edges=30))
    model = without_dropout(small_config("apgcn")).build(graph, RandomStream([1, 2]))
    output = forward_passes(model, graph, RandomStream([3, 4]), passes=3)
    expected = model(graph)
    for passed, value in zip(output, expected, strict=True):
        assert torch.equal(passed, value.repeat_interleave(3, 0))


def test_the_first_pass_draws_what_the_run_draws_and_the_others_differ():
    graph = DeviceGraph.from_graph(random_graph(30, edges=60))
    model = small_config("apgcn").build(graph, RandomStream([1, 2]))
    rng = RandomStream([3, 4])
    rng.seek(7)
    passes = forward_passes(model, graph, rng, passes=2).output.unflatten(0, (2, 2))
    rng.rewind()
    assert torch.equal(passes[:, 0], model(graph, rng).output)
    assert not torch.equal(passes[:, 0], passes[:, 1])
    assert not torch.equal(passes[0, 1], passes[1, 1])


@pytest.mark.parametrize("name", TRAINED)
def test_loss_and_gradients_equal_a_loop_over_runs_and_passes(name):
    """Of every model; the loop calls a model of one run with the weights of that run and the stream of that pass."""
    graph = DeviceGraph.from_graph(random_graph(24, edges=40))
    config = small_config(name)
    rng = RandomStream([5, 6])
    model = config.build(graph, RandomStream([1, 2]))
    nodes = NodeSet.stack([[0, 3, 5], [2, 7, 9]], graph.labels, name="training")
    epoch = torch.tensor(4)
    rng.seek(4)
    loss = consistent_training_loss(model, graph, rng, nodes, CONSISTENT, epoch)
    loss.sum().backward()

    single = config.build(graph, RandomStream([1]))
    for number in range(2):
        weights = {key: value[number : number + 1].detach().requires_grad_() for key, value in model.named_parameters()}
        logits, supervised = [], 0.0
        for index in range(3):
            stream = rng.repeat(3)
            stream.select(torch.tensor([3 * number + index]))
            output = functional_call(single, weights, (graph, stream))
            p = output.output.softmax(-1)[0]
            for node in nodes.index[number].tolist():
                supervised = supervised - p[node, graph.labels[node]].log() / 9
                if hasattr(config, "penalty"):
                    supervised = supervised + config.penalty * output.cost[0, node] / 9
            logits.append(p)
        distances, count = 0.0, 0
        for node in range(len(logits[0])):
            mean = sum(p[node] for p in logits).detach() / 3
            if mean.max() >= 0.35:
                target = mean ** (1 / 0.4) / (mean ** (1 / 0.4)).sum()
                distances = distances + sum(((p[node] - target) ** 2).sum() for p in logits) / 3
                count += 1
        assert 0 < count
        regularised = [key for key, value in model.named_parameters() if any(value is w for w in model.l2_parameters())]
        l2_term = 0.3 / 2 * sum((weights[key] ** 2).sum() for key in regularised)
        expected = supervised + l2_term + 0.7 * 4 / 10 * distances / count
        torch.testing.assert_close(loss[number], expected, rtol=1e-4, atol=1e-6)
        expected.backward()
        for key, parameter in model.named_parameters():
            gradient = weights[key].grad if weights[key].grad is not None else torch.zeros_like(weights[key])
            torch.testing.assert_close(parameter.grad[number], gradient[0], rtol=1e-3, atol=1e-5, msg=f"{name} {key}")


def test_the_weight_rises_over_the_warm_up():
    graph = DeviceGraph.from_graph(random_graph(24, edges=40))
    model = without_dropout(small_config("apgcn")).build(graph, RandomStream([1]))
    nodes = NodeSet.stack([[0, 3, 5]], graph.labels, name="training")
    at = [
        consistent_training_loss(model, graph, RandomStream([5]), nodes, CONSISTENT, torch.tensor(epoch)).item()
        for epoch in (1, 3, 10, 50)
    ]
    assert at[1] - at[0] == pytest.approx(2 * (at[2] - at[0]) / 9, rel=1e-3)
    assert at[2] == at[3] > at[0]


@pytest.mark.parametrize("name", ["apgcn", "gcn"])
def test_a_run_has_the_same_bits_in_any_batch(name):
    graph = random_graph(30, edges=60, features=6)
    training = replace(CONSISTENT, l2=0.01, patience=4, max_epochs=12)
    runs = make_runs(30, count=4)
    together = train(graph, runs, small_config(name), training, threads=2)
    for number, result in zip(runs, together, strict=True):
        (alone,) = train(graph, [number], small_config(name), training, threads=1)
        assert bits(result) == bits(alone)


def test_without_consistency_the_other_hyperparameters_change_nothing():
    graph = random_graph(30, edges=60, features=6)
    runs = make_runs(30, count=2)
    plain = train(graph, runs, small_config("apgcn"), TrainingConfig(max_epochs=5))
    other = train(
        graph, runs, small_config("apgcn"), TrainingConfig(max_epochs=5, consistency_passes=4, temperature=0.2)
    )
    assert [bits(result) for result in plain] == [bits(result) for result in other]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("consistency_warmup=0.5", "consistency_warmup must be"),
        ("consistency_passes=0", "consistency_passes must be >= 1, got 0"),
        ("consistency_warmup=0", "consistency_warmup must be >= 1, got 0"),
        ("temperature=0", "temperature must be > 0, got 0"),
        ("confidence=1.5", r"confidence must be in [0, 1), got 1.5"),
    ],
)
def test_a_wrong_value_is_one_message(setting, message, capsys):
    assert run(["train", "cora", "--set", "consistency=1", "--set", setting]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.strip().splitlines()) == 1


def test_memory_is_that_of_all_passes():
    graph, cpu = random_graph(30, edges=60), torch.device("cpu")
    one = bytes_per_run(graph, APGCNConfig(), cpu, passes=TrainingConfig(consistency_passes=4).passes)
    assert bytes_per_run(graph, APGCNConfig(), cpu, passes=CONSISTENT.passes) == 3 * one


def test_ranks_refuse_it():
    with pytest.raises(InvalidInput, match=r"consistency must be 0 with --distributed, got 0\.7"):
        check_trainable_on_shards(APGCNConfig(), CONSISTENT)
