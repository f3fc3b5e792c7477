"""The batched trainer against single runs, steps by hand and its own history; `train` and its checks."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
from helpers import ROOT
from helpers.graphs import random_graph

from apgcn import VALIDATION_SEEDS, APGCNConfig, Run, Split, TrainingConfig, benchmark_runs, load, train
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.published import GRAPHS
from apgcn.benchmark.store import Store
from apgcn.errors import InvalidInput
from apgcn.models.gcn import GCNConfig
from apgcn.models.ngcn import NGCNConfig
from apgcn.ops import devices
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training import trainer as trainer_module
from apgcn.training.batching import batch_size, bytes_per_run, make_batches
from apgcn.training.config import Monitor
from apgcn.training.trainer import BatchedTrainer

ALL_DROPOUT = APGCNConfig(hidden_channels=16, z0_dropout=0.5, update_dropout=0.5)
SHORT = TrainingConfig(patience=8, max_epochs=60)


@pytest.fixture(scope="module")
def graph():
    return random_graph(60, edges=120, features=12)


def make_runs(graph, count: int) -> list[Run]:
    random = np.random.default_rng(0)
    runs = []
    for seed in range(count):
        train, stopping, validation, test = np.split(random.permutation(graph.num_nodes), [12, 30, 40])
        runs.append(Run(Split(train, stopping, validation, test, seed=seed), init=seed % 2, dataset="random"))
    return runs


def train_batch(graph, runs, model, training):
    """Train one batch on this graph."""
    return trainer_module.train_batch(DeviceGraph.from_graph(graph), runs, model, training)


def weights_after(graph, runs, epochs: int, model=ALL_DROPOUT, training=TrainingConfig()):
    trainer = BatchedTrainer(DeviceGraph.from_graph(graph), runs, model, training)
    for _ in range(epochs):
        trainer.train_epoch()
    return {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}


def test_finished_runs_may_be_dropped_late_and_together():
    """As on a GPU, where the host synchronises seldom: what a run computes after its last epoch is discarded."""
    graph = random_graph(60, edges=150, features=8)
    runs, training = make_runs(graph, 7), TrainingConfig(patience=6, max_epochs=60)
    results = []
    for sync_interval, drop_seconds in ((1, 0.0), (10, 0.02)):
        trainer = BatchedTrainer(DeviceGraph.from_graph(graph), runs, ALL_DROPOUT, training)
        trainer.sync_interval, trainer.drop_seconds = sync_interval, drop_seconds
        while trainer.has_active_runs:
            trainer.train_epoch()
        results.append(trainer.results())
    for soon, late in zip(*results, strict=True):
        assert (soon.epochs, soon.best_epoch) == (late.epochs, late.best_epoch)
        np.testing.assert_allclose(soon.history.stopping_loss, late.history.stopping_loss, rtol=1e-4)
        np.testing.assert_allclose(soon.logits, late.logits, rtol=1e-3, atol=1e-4)
    assert len({result.epochs for result in results[0]}) > 2


def test_runs_may_be_dropped_while_an_earlier_graph_is_alive(graph):
    """A reference cycle may keep the graph of a loss alive until Python collects it."""
    trainer = BatchedTrainer(DeviceGraph.from_graph(graph), make_runs(graph, 2), ALL_DROPOUT, SHORT)
    trainer.train_epoch()
    for parameter in trainer.model.parameters():
        parameter.requires_grad_(True)
    alive = trainer.loss(trainer.model.forward_nodes(trainer.train_nodes.index, trainer.graph))
    trainer.drop_finished(torch.tensor([True, False]))
    expected = {name: weight.shape[0] for name, weight in trainer.model.named_parameters()}
    trainer.train_epoch()
    assert alive.requires_grad
    assert set(expected.values()) == {1}
    assert all(weight.shape[0] == 1 for weight in trainer.model.parameters())


def test_a_batch_of_eight_equals_eight_batches_of_one(cora):
    """To rounding, over the first epochs, with every dropout on: same initial weights, masks and steps."""
    runs = benchmark_runs(cora, 8)
    together = weights_after(cora, runs, epochs=6)
    for number, run in enumerate(runs):
        alone = weights_after(cora, [run], epochs=6)
        for name, weight in alone.items():
            torch.testing.assert_close(together[name][number : number + 1], weight, rtol=1e-3, atol=2e-5)
    first = together["predict.first.weight"]
    assert all(not torch.equal(first[0], first[number]) for number in range(1, 8))


def test_a_run_stops_at_the_same_epoch_in_any_batch(graph):
    """Finished runs are dropped one by one, which must not affect the others."""
    runs = make_runs(graph, 6)
    together = train_batch(graph, runs, ALL_DROPOUT, SHORT)
    for run, batched in zip(runs, together, strict=True):
        (alone,) = train_batch(graph, [run], ALL_DROPOUT, SHORT)
        assert (alone.epochs, alone.best_epoch) == (batched.epochs, batched.best_epoch)
        np.testing.assert_allclose(alone.logits, batched.logits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(alone.history.stopping_loss, batched.history.stopping_loss, rtol=1e-3, atol=1e-4)
    assert len({result.epochs for result in together}) > 2


@pytest.mark.parametrize("sparse_features", [False, True])
def test_the_same_key_gives_the_same_bits(graph, cora, sparse_features):
    if sparse_features:
        graph, runs = cora, benchmark_runs(cora, 1)
    else:
        runs = make_runs(graph, 1)
    (first,), (second,) = (train_batch(graph, runs, ALL_DROPOUT, SHORT) for _ in range(2))
    assert np.array_equal(first.logits, second.logits)
    assert np.array_equal(first.history.training_loss, second.history.training_loss)
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_global_generators_are_neither_read_nor_advanced(graph):
    torch.manual_seed(1)
    np.random.seed(1)
    state = torch.get_rng_state()
    (first,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, SHORT)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    np.random.seed(2)
    (second,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, SHORT)
    assert np.array_equal(first.logits, second.logits)


@pytest.mark.parametrize(("split_seed", "init"), [(1, 0), (0, 1)])
def test_another_key_gives_other_random_numbers(graph, split_seed, init):
    run = make_runs(graph, 1)[0]
    other = replace(run, split=replace(run.split, seed=split_seed), init=init)
    assert run.rng_seed != other.rng_seed
    assert not torch.equal(
        weights_after(graph, [run], epochs=0)["predict.first.weight"],
        weights_after(graph, [other], epochs=0)["predict.first.weight"],
    )


def test_hyperparameters_without_draws_do_not_change_the_random_numbers(graph):
    """The penalty changes no initial weight; patience and monitor change no step either."""
    without_penalty, with_penalty = (
        weights_after(graph, make_runs(graph, 1), 0, APGCNConfig(penalty=p)) for p in (0.0, 1.0)
    )
    assert torch.equal(without_penalty["predict.first.weight"], with_penalty["predict.first.weight"])
    default, changed = (
        weights_after(graph, make_runs(graph, 1), 4, training=replace(SHORT, patience=p, monitor=m))
        for p, m in ((50, "stopping"), (60, "training"))
    )
    assert torch.equal(default["predict.first.weight"], changed["predict.first.weight"])


@pytest.mark.parametrize("epochs", [1, 7])
def test_the_history_can_be_recomputed_from_the_weights(graph, epochs):
    """After the step, dropout off: loss of the training set, cross-entropy and accuracy of the stopping set."""
    run, config = make_runs(graph, 1)[0], APGCNConfig(hidden_channels=16, penalty=0.3)
    training = TrainingConfig(max_epochs=epochs, l2=0.2)
    (result,) = train_batch(graph, [run], config, training)
    device_graph = DeviceGraph.from_graph(graph)
    model = config.build(device_graph, RandomStream([0]))
    model.load_state_dict(weights_after(graph, [run], epochs, config, replace(training, max_epochs=100)))
    with torch.no_grad():
        logits, steps, remainder = (value[0] for value in model(device_graph))
        log_probabilities = torch.log_softmax(logits.double(), dim=-1)
    train, stopping = (torch.from_numpy(nodes.copy()) for nodes in (run.split.train, run.split.stopping))
    cross_entropy = lambda nodes: -log_probabilities[nodes, device_graph.labels[nodes]].mean().item()  # noqa: E731
    training_loss = cross_entropy(train) + 0.2 / 2 * model.predict.first.weight.square().sum().item()
    training_loss += 0.3 * (steps + remainder)[train].mean().item()
    history = result.history
    assert history.training_loss[-1] == pytest.approx(training_loss, rel=1e-5)
    assert history.stopping_loss[-1] == pytest.approx(cross_entropy(stopping), rel=1e-5)
    accuracy = (logits[stopping].argmax(-1) == device_graph.labels[stopping]).double().mean().item()
    assert history.stopping_accuracy[-1] == pytest.approx(accuracy)
    evaluated = torch.cat([train, stopping])
    assert history.steps_mean[-1] == pytest.approx(steps[evaluated].double().mean().item(), rel=1e-6)


@pytest.mark.parametrize("change", [{"learning_rate": 0.02}, {"l2": 0.1}], ids=str)
def test_learning_rate_and_l2_change_the_step(graph, change):
    default, changed = (
        weights_after(graph, make_runs(graph, 1), 1, training=config)
        for config in (TrainingConfig(), TrainingConfig(**change))
    )
    assert not torch.equal(default["predict.first.weight"], changed["predict.first.weight"])


def test_every_epoch_draws_other_masks(graph):
    trainer = BatchedTrainer(DeviceGraph.from_graph(graph), make_runs(graph, 1), ALL_DROPOUT, TrainingConfig())
    outputs = []
    for epoch in (1, 2):
        trainer.rng.seek(epoch)
        outputs.append(trainer.model(trainer.graph, trainer.rng).output)
    assert not torch.equal(*outputs)


def test_the_best_weights_are_copied_and_restored(graph):
    """A result is evaluated with the weights of its best epoch, not of its last."""
    (result,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, SHORT)
    assert result.best_epoch < result.epochs
    at_best = weights_after(graph, make_runs(graph, 1), result.best_epoch, training=SHORT)
    at_end = weights_after(graph, make_runs(graph, 1), result.epochs - 1, training=SHORT)
    for name, weight in result.weights.items():
        assert torch.equal(weight, at_best[name])
    assert not torch.equal(result.weights["predict.first.weight"], at_end["predict.first.weight"])

    device_graph = DeviceGraph.from_graph(graph)
    model = ALL_DROPOUT.build(device_graph, RandomStream([0]))
    model.load_state_dict(result.weights)
    with torch.no_grad():
        assert np.array_equal(model(device_graph).output[0].numpy(), result.logits)


def test_the_best_epoch_is_the_best_of_the_history(graph):
    for monitor in ("stopping", "training"):
        (result,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, replace(SHORT, monitor=monitor))
        losses = getattr(result.history, f"{monitor}_loss")
        order = list(zip(result.history.stopping_accuracy, -losses, strict=True))
        assert max(order) == order[result.best_epoch - 1]


def test_the_regularised_monitor_is_the_stopping_loss_plus_the_l2_term(graph):
    trainer = BatchedTrainer(
        DeviceGraph.from_graph(graph), make_runs(graph, 2), ALL_DROPOUT, TrainingConfig(monitor="regularised", l2=0.3)
    )
    trainer.step()
    evaluation = trainer.evaluate()
    l2_term = 0.3 / 2 * (trainer.model.predict.first.weight**2).sum((1, 2))
    torch.testing.assert_close(trainer.monitored_loss(evaluation), evaluation.stopping_loss + l2_term)
    trainer.config = TrainingConfig(monitor="stopping", l2=0.3)
    assert torch.equal(trainer.monitored_loss(evaluation), evaluation.stopping_loss)


def test_the_monitored_loss_decides_when_to_stop(graph):
    epochs = set()
    for monitor in get_args(Monitor):
        (result,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, replace(SHORT, monitor=monitor, l2=0.3))
        epochs.add(result.epochs)
    assert len(epochs) == 3


@pytest.mark.parametrize("interval", [1, 3, 5])
def test_the_halting_unit_is_updated_at_its_interval_only_momentum_included(graph, interval):
    config = APGCNConfig(hidden_channels=16, penalty=0.1, halting_interval=interval)
    trainer = BatchedTrainer(DeviceGraph.from_graph(graph), make_runs(graph, 2), config, TrainingConfig())
    moved = []
    for _ in range(15):
        before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
        trainer.train_epoch()
        moved.append(
            {name for name, weight in trainer.model.named_parameters() if not torch.equal(weight, before[name])}
        )
    unit = {"propagation.halting_unit.weight", "propagation.halting_unit.bias"}
    for epoch, names in enumerate(moved, start=1):
        assert names & unit == (unit if epoch % interval == 0 else set()), epoch
        assert "predict.first.weight" in names


def test_one_step_equals_one_step_of_torch_adam(graph):
    """The same forward pass, with the loss and the optimiser step by hand."""
    device_graph, run = DeviceGraph.from_graph(graph), make_runs(graph, 1)[0]
    actual = weights_after(graph, [run], epochs=1)

    rng = RandomStream([run.rng_seed])
    model = ALL_DROPOUT.build(device_graph, rng)
    rng.seek(1)
    output = model(device_graph, rng)
    nodes = torch.from_numpy(run.split.train.copy())
    loss = torch.nn.functional.cross_entropy(output.output[0, nodes], device_graph.labels[nodes])
    loss = loss + 0.008 / 2 * model.predict.first.weight.square().sum()
    loss = loss + ALL_DROPOUT.penalty * (output.steps + output.remainder)[0, nodes].mean()
    loss.backward()
    halting_unit = set(model.propagation.halting_unit.parameters())
    torch.optim.Adam([weight for weight in model.parameters() if weight not in halting_unit], lr=0.01).step()
    for name, weight in model.named_parameters():
        torch.testing.assert_close(actual[name], weight.detach(), rtol=1e-4, atol=1e-6)


def test_a_batch_learns(graph):
    """Labels that follow from the features of isolated nodes are learned; guessing gives a third."""
    features = np.eye(3)[graph.labels] + graph.features[:, :3] / 2
    learnable = replace(graph, adjacency=graph.adjacency * 0, features=features)
    results = train_batch(learnable, make_runs(learnable, 4), APGCNConfig(), TrainingConfig(l2=0.0))
    assert min(result.test_accuracy for result in results) > 0.9


def test_a_diverged_run_keeps_its_initial_weights_and_has_best_epoch_zero(graph):
    run = make_runs(graph, 1)[0]
    (result,) = train_batch(graph, [run], ALL_DROPOUT, TrainingConfig(learning_rate=1e30, patience=5))
    assert result.best_epoch == 0
    assert torch.equal(result.weights["predict.first.weight"], weights_after(graph, [run], 0)["predict.first.weight"])


def test_results_are_in_the_order_of_the_runs_whatever_the_batches(graph, monkeypatch):
    monkeypatch.setattr("apgcn.training.batching.MAX_CPU_BATCH", 2)
    runs, reports = make_runs(graph, 5), []
    results = train(graph, runs, ALL_DROPOUT, SHORT, progress=reports.append)
    assert [result.run for result in results] == runs
    assert reports[-1].finished == 5
    assert reports[-1].fraction == pytest.approx(1)
    assert all(0 < report.fraction <= 1 + 1e-9 for report in reports)


def test_batches_are_few_and_nearly_equal(graph):
    assert [len(batch) for batch in make_batches(make_runs(graph, 20), max_size=8)] == [6, 7, 7]
    assert make_batches(make_runs(graph, 3), max_size=8) == [[0, 1, 2]]


def test_runs_with_sets_of_different_sizes_go_into_different_batches(graph):
    runs = make_runs(graph, 4)
    for number in (1, 2):
        runs[number] = replace(runs[number], split=replace(runs[number].split, train=runs[number].split.train[:5]))
    assert make_batches(runs, max_size=8) == [[0, 3], [1, 2]]
    results = train(graph, runs, ALL_DROPOUT, SHORT)
    assert [result.run for result in results] == runs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "another"}, "a run of 'another' cannot be trained on 'random'"),
        ({"split": Split([0], [60])}, "stopping must hold nodes of random, 0 to 59, got 60"),
        ({"split": Split([0], [1], test=[99])}, "test must hold nodes of random"),
        ({"split": Split([0, 7], [1])}, "train set must have a label, but that of node 7 is -1"),
        ({"split": Split([0], [])}, "the stopping set of a split must not be empty"),
    ],
)
def test_a_run_that_does_not_fit_the_graph_is_refused_before_training(graph, change, message):
    labels = graph.labels.copy()
    labels[7] = -1
    run = replace(make_runs(graph, 1)[0], **{"split": Split([0], [1]), **change})
    with pytest.raises(InvalidInput, match=message):
        train(replace(graph, labels=labels), [run], ALL_DROPOUT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"runs": []}, "at least one run"),
        ({"runs": "run"}, "runs must hold runs"),
        ({"runs": Run(Split([0], [1]))}, "runs must be a list of runs"),
        ({"model": TrainingConfig()}, "model must be the config of a model"),
        ({"device": "tpu"}, "device must be cpu, cuda or cuda:N, got 'tpu'"),
    ],
)
def test_invalid_arguments_of_train_raise_a_message_that_names_them(graph, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        train(**{"graph": graph, "runs": make_runs(graph, 1), "model": ALL_DROPOUT, **arguments})


def test_a_graph_without_features_cannot_be_trained_on(graph):
    with pytest.raises(InvalidInput, match="at least one feature"):
        train(replace(graph, features=np.zeros((60, 0))), make_runs(graph, 1), ALL_DROPOUT)


def test_nodes_without_a_label_do_not_count_as_misclassified(graph):
    run = make_runs(graph, 1)[0]
    labels = graph.labels.copy()
    labels[run.split.test[:10]] = -1
    partly_labelled = replace(graph, labels=labels)
    (full,), (partial,) = (train(source, [run], ALL_DROPOUT, SHORT) for source in (graph, partly_labelled))
    assert np.array_equal(full.logits, partial.logits)
    assert partial.test_accuracy == full.accuracy(run.split.test[10:])


def test_training_restores_the_number_of_threads(graph):
    torch.set_num_threads(2)
    threads = []
    train(graph, make_runs(graph, 1), ALL_DROPOUT, SHORT, progress=lambda _: threads.append(torch.get_num_threads()))
    assert set(threads) == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_the_repr_of_results_is_short(graph):
    (result,) = train(graph, make_runs(graph, 1), ALL_DROPOUT, SHORT)
    assert repr(result).startswith("RunResult(Run(split=Split(seed=0, train=12, stopping=18, validation=10, test=20)")
    assert len(repr(result)) < 300
    assert len(repr(result.history)) < 30


def test_a_large_graph_gets_a_small_batch_and_one_that_does_not_fit_is_refused(graph, monkeypatch):
    config = APGCNConfig()
    needed = bytes_per_run(graph, config, torch.device("cpu"))
    for memory, size in [(1000 * needed, 8), (5 * needed, 3), (needed, 1)]:
        monkeypatch.setattr("apgcn.training.batching.available_memory", lambda device, memory=memory: memory)
        assert batch_size(graph, config, torch.device("cpu")) == size
    monkeypatch.setattr("apgcn.training.batching.available_memory", lambda device: needed - 1)
    with pytest.raises(
        InvalidInput,
        match=f"one run of AP-GCN on random needs about {needed:,} bytes .* make max_steps or hidden_channels smaller",
    ):
        batch_size(graph, config, torch.device("cpu"))


def test_concurrent_batches_divide_the_memory(graph, monkeypatch):
    config = APGCNConfig()
    needed = bytes_per_run(graph, config, torch.device("cpu"))
    monkeypatch.setattr("apgcn.training.batching.available_memory", lambda device: 10 * needed)
    sizes = [batch_size(graph, config, torch.device("cpu"), workers=workers) for workers in (1, 2, 4)]
    assert sizes == [6, 3, 1]  # 60 % of the memory of 10, 5 and 2.5 runs
    with pytest.raises(InvalidInput, match="for each of 11 workers; use fewer"):
        batch_size(graph, config, torch.device("cpu"), workers=11)


@pytest.mark.parametrize(("written", "expected"), [("1048576\n", 2**20), ("max\n", None)])
def test_the_memory_limit_of_a_container_is_respected(monkeypatch, written, expected):
    from pathlib import Path

    from apgcn.ops.devices import available_memory

    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(Path, "read_text", lambda path: written)
    assert available_memory(torch.device("cpu")) == (expected or machine)


def test_a_run_stops_at_max_epochs(graph):
    (result,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, TrainingConfig(max_epochs=3))
    assert result.epochs == 3


def test_benchmark_runs_go_through_the_splits_then_the_initialisations(cora):
    runs = benchmark_runs(cora, 45, seed=7)
    assert [run.init for run in runs] == [7] * 20 + [8] * 20 + [9] * 5
    assert runs[0].split is runs[20].split is runs[40].split
    assert len({run.rng_seed for run in runs}) == 45
    with pytest.raises(InvalidInput, match="runs must be >= 1, got 0"):
        benchmark_runs(cora, 0)
    with pytest.raises(InvalidInput, match=r"call clean\(graph\) first"):
        benchmark_runs(load("cora"), 1)


def test_runs_for_validation_have_no_test_nodes(cora):
    runs = benchmark_runs(cora, 21, validation=True)
    assert [run.split.seed for run in runs] == [*VALIDATION_SEEDS, VALIDATION_SEEDS[0]]
    assert all(len(run.split.test) == 0 for run in runs)


@pytest.mark.skipif(sys.platform != "linux", reason="uses malloc_trim of glibc")
def test_free_memory_is_returned_to_the_system(cora, monkeypatch):
    """N-GCN allocates and frees the most; otherwise the process grows by some megabytes per epoch on larger graphs."""
    monkeypatch.setattr(devices, "_next_return", 0.0)
    resident = []

    def measure(progress):
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]))

    train(cora, benchmark_runs(cora, 1), NGCNConfig(), TrainingConfig(max_epochs=20), progress=measure)
    assert resident[18] - resident[19] > 2**25 / os.sysconf("SC_PAGE_SIZE"), "32 MB of one run"


def test_returning_free_memory_takes_a_hundredth_of_the_time(monkeypatch):
    """In a process with a large heap it takes long, as simulated here: every call of the C library 50 ms."""
    now, calls = [1000.0], []

    def trim(_):
        calls.append(now[0])
        now[0] += 0.05

    monkeypatch.setattr(devices.ctypes, "CDLL", lambda _: SimpleNamespace(malloc_trim=trim))
    monkeypatch.setattr(devices.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(devices.sys, "platform", "linux")
    monkeypatch.setattr(devices, "_next_return", 0.0)
    for _ in range(1000):  # calls, 20 ms apart
        devices.return_free_memory()
        now[0] += 0.02
    assert 2 <= len(calls) <= 6
    assert min(np.diff(calls)) >= 5


@pytest.mark.parametrize(
    ("config", "seconds"),
    [(ALL_DROPOUT, 25), (GCNConfig(hidden_channels=4), 58)],
    ids=["one batch", "one run after the other"],
)
def test_a_time_limit_gives_the_results_of_as_many_epochs(graph, monkeypatch, config, seconds):
    """An epoch takes ten seconds of a scripted clock; the limit passes during epoch 3 of each run.

    Runs that train one after the other share what is left of it.
    """
    runs, ticks, epochs = make_runs(graph, 2), iter(range(1000)), []
    expected = train_batch(graph, runs, config, TrainingConfig(max_epochs=3))
    train_epoch = BatchedTrainer.train_epoch
    monkeypatch.setattr(BatchedTrainer, "train_epoch", lambda self: (epochs.append(1), train_epoch(self))[1])
    monkeypatch.setattr(trainer_module.time, "perf_counter", lambda: 10 * len(epochs) + 1e-6 * next(ticks))
    device_graph = DeviceGraph.from_graph(graph)
    assert trainer_module.trains_as_one_batch(device_graph, config) == (seconds == 25)
    results = trainer_module.train_batch(device_graph, runs, config, TrainingConfig(), time_limit=seconds)
    assert [result.epochs for result in results] == [3, 3]
    for result, reference in zip(results, expected, strict=True):
        assert np.array_equal(result.logits, reference.logits)
        assert (result.best_epoch, result.converged) == (reference.best_epoch, False)


def test_every_run_trains_for_an_epoch_however_short_the_time_limit(graph):
    results = train(graph, make_runs(graph, 3), ALL_DROPOUT, time_limit=1e-9)
    assert [(result.epochs, result.converged) for result in results] == [(1, False)] * 3
    for invalid in (0, -1, float("nan"), "soon"):
        with pytest.raises(InvalidInput, match="time_limit must be"):
            train(graph, make_runs(graph, 1), ALL_DROPOUT, time_limit=invalid)


def test_a_run_has_converged_if_patience_ended_it(graph):
    (result,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, TrainingConfig(patience=3))
    assert result.converged
    (result,) = train_batch(graph, make_runs(graph, 1), ALL_DROPOUT, TrainingConfig(max_epochs=3))
    assert not result.converged


def test_epochs_are_estimated_within_a_factor_of_two():
    """Of batches of 20 recorded runs, after a tenth of their epochs, in which every run has still improved."""
    store = Store(ROOT / "results" / "h200")
    ratios = []
    for dataset in GRAPHS:
        for model in ("apgcn", "appnp", "ppnp", "ap-arma"):
            records = store.records_for(RunConfig.from_preset(dataset, model), 20)
            epochs = torch.tensor([record.epochs for record in records])
            expected = trainer_module.expected_epochs(epochs // 10, patience=100, max_epochs=10_000, patiences=11)
            ratios.append(float(expected.sum() / epochs.sum()))
    assert len(ratios) == 24
    assert sum(0.5 <= ratio <= 2 for ratio in ratios) >= 21, ratios
