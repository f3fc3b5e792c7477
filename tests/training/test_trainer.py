import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph

from apgcn import VALIDATION_SEEDS, APGCNConfig, Run, Split, TrainingConfig, benchmark_runs, clean, load, train
from apgcn.errors import InvalidInput
from apgcn.models.ngcn import NGCNConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training import trainer
from apgcn.training.batching import bytes_per_run, divide, pack_size
from apgcn.training.config import Monitor
from apgcn.training.trainer import BatchedTrainer

ALL_DROPOUT = APGCNConfig(hidden_channels=16, z0_dropout=0.5, update_dropout=0.5)
SHORT = TrainingConfig(patience=8, max_epochs=60)


@pytest.fixture(scope="module")
def graph():
    return random_graph(60, edges=120, features=12)


def runs_of(graph, count: int) -> list[Run]:
    random = np.random.default_rng(0)
    runs = []
    for seed in range(count):
        train, stopping, validation, test = np.split(random.permutation(graph.num_nodes), [12, 30, 40])
        runs.append(Run(Split(train, stopping, validation, test, seed=seed), init=seed % 2, dataset="random"))
    return runs


def train_batch(graph, runs, model, training):
    """One pack on this graph."""
    return trainer.train_batch(DeviceGraph.of(graph), runs, model, training)


def weights_after(graph, runs, epochs: int, model=ALL_DROPOUT, training=TrainingConfig()):
    pack = BatchedTrainer(DeviceGraph.of(graph), runs, model, training)
    for _ in range(epochs):
        pack.epoch()
    return {name: weight.detach().clone() for name, weight in pack.model.named_parameters()}


def test_runs_may_leave_late_and_together():
    """As on a GPU, which is looked at seldom: what a run does after its end is forgotten."""
    graph = random_graph(60, edges=150, features=8)
    runs, training = runs_of(graph, 7), TrainingConfig(patience=6, max_epochs=60)
    answers = []
    for look_every, together in ((1, 0.0), (10, 0.4)):
        pack = BatchedTrainer(DeviceGraph.of(graph), runs, ALL_DROPOUT, training)
        pack.look_every, pack.together = look_every, together
        while pack.going:
            pack.epoch()
        answers.append(pack.results())
    for soon, late in zip(*answers, strict=True):
        assert (soon.epochs, soon.best_epoch) == (late.epochs, late.best_epoch)
        np.testing.assert_allclose(soon.history.stopping_loss, late.history.stopping_loss, rtol=1e-4)
        np.testing.assert_allclose(soon.logits, late.logits, rtol=1e-3, atol=1e-4)
    assert len({result.epochs for result in answers[0]}) > 2


def test_a_pack_of_eight_is_eight_packs_of_one(cora):
    """To rounding, over the first epochs, with every dropout on: same initial weights, same noise, same steps."""
    runs = benchmark_runs(cora, 8)
    together = weights_after(cora, runs, epochs=6)
    for number, run in enumerate(runs):
        alone = weights_after(cora, [run], epochs=6)
        for name, weight in alone.items():
            torch.testing.assert_close(together[name][number : number + 1], weight, rtol=1e-3, atol=2e-5)
    first = together["predict.first.weight"]
    assert all(not torch.equal(first[0], first[number]) for number in range(1, 8))


def test_a_run_stops_at_the_same_epoch_in_any_company(graph):
    """Runs leave the pack one by one; those that stay must not notice."""
    runs = runs_of(graph, 6)
    together = train_batch(graph, runs, ALL_DROPOUT, SHORT)
    for run, packed in zip(runs, together, strict=True):
        (alone,) = train_batch(graph, [run], ALL_DROPOUT, SHORT)
        assert (alone.epochs, alone.best_epoch) == (packed.epochs, packed.best_epoch)
        np.testing.assert_allclose(alone.logits, packed.logits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(alone.history.stopping_loss, packed.history.stopping_loss, rtol=1e-3, atol=1e-4)
    assert len({result.epochs for result in together}) > 2


@pytest.mark.parametrize("sparse_features", [False, True])
def test_the_same_key_gives_the_same_bits(graph, cora, sparse_features):
    if sparse_features:
        graph, runs = cora, benchmark_runs(cora, 1)
    else:
        runs = runs_of(graph, 1)
    (first,), (second,) = (train_batch(graph, runs, ALL_DROPOUT, SHORT) for _ in range(2))
    assert np.array_equal(first.logits, second.logits)
    assert np.array_equal(first.history.training_loss, second.history.training_loss)
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)


def test_global_generators_are_neither_read_nor_moved(graph):
    torch.manual_seed(1)
    np.random.seed(1)
    state = torch.get_rng_state()
    (first,) = train_batch(graph, runs_of(graph, 1), ALL_DROPOUT, SHORT)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    np.random.seed(2)
    (second,) = train_batch(graph, runs_of(graph, 1), ALL_DROPOUT, SHORT)
    assert np.array_equal(first.logits, second.logits)


@pytest.mark.parametrize(("split_seed", "init"), [(1, 0), (0, 1)])
def test_another_key_gives_other_noise(graph, split_seed, init):
    run = runs_of(graph, 1)[0]
    other = replace(run, split=replace(run.split, seed=split_seed), init=init)
    assert run.rng_seed != other.rng_seed
    assert not torch.equal(
        weights_after(graph, [run], epochs=0)["predict.first.weight"],
        weights_after(graph, [other], epochs=0)["predict.first.weight"],
    )


def test_settings_that_draw_nothing_do_not_change_the_noise(graph):
    """After a step they differ, and so they do not merely start alike: without a price or l2, they do not."""
    cheap, dear = (weights_after(graph, runs_of(graph, 1), 0, APGCNConfig(penalty=p)) for p in (0.0, 1.0))
    assert torch.equal(cheap["predict.first.weight"], dear["predict.first.weight"])
    plain, other = (
        weights_after(graph, runs_of(graph, 1), 4, training=replace(SHORT, patience=p, watch=w))
        for p, w in ((50, "stopping"), (60, "training"))
    )
    assert torch.equal(plain["predict.first.weight"], other["predict.first.weight"])


@pytest.mark.parametrize("epochs", [1, 7])
def test_what_an_epoch_reports_can_be_worked_out_from_its_weights(graph, epochs):
    """Evaluated after the step, dropout off: objective on the training set, cross-entropy and accuracy of stopping."""
    run, config = runs_of(graph, 1)[0], APGCNConfig(hidden_channels=16, penalty=0.3)
    training = TrainingConfig(max_epochs=epochs, l2=0.2)
    (result,) = train_batch(graph, [run], config, training)
    tensors = DeviceGraph.of(graph)
    network = config.build(tensors, RandomStream([0]))
    network.load_state_dict(weights_after(graph, [run], epochs, config, replace(training, max_epochs=100)))
    with torch.no_grad():
        logits, steps, remainder = (value[0] for value in network(tensors))
        chances = torch.log_softmax(logits.double(), dim=-1)
    train, stopping = (torch.from_numpy(nodes.copy()) for nodes in (run.split.train, run.split.stopping))
    surprise = lambda nodes: -chances[nodes, tensors.labels[nodes]].mean().item()  # noqa: E731
    objective = surprise(train) + 0.2 / 2 * network.predict.first.weight.square().sum().item()
    objective += 0.3 * (steps + remainder)[train].mean().item()
    history = result.history
    assert history.training_loss[-1] == pytest.approx(objective, rel=1e-5)
    assert history.stopping_loss[-1] == pytest.approx(surprise(stopping), rel=1e-5)
    right = (logits[stopping].argmax(-1) == tensors.labels[stopping]).double().mean().item()
    assert history.stopping_accuracy[-1] == pytest.approx(right)
    assert history.steps_mean[-1] == pytest.approx(steps.double().mean().item(), rel=1e-6)


@pytest.mark.parametrize("change", [{"learning_rate": 0.02}, {"l2": 0.1}], ids=str)
def test_every_setting_of_training_reaches_the_step(graph, change):
    usual, changed = (
        weights_after(graph, runs_of(graph, 1), 1, training=one) for one in (TrainingConfig(), TrainingConfig(**change))
    )
    assert not torch.equal(usual["predict.first.weight"], changed["predict.first.weight"])


def test_every_epoch_hears_other_noise(graph):
    pack = BatchedTrainer(DeviceGraph.of(graph), runs_of(graph, 1), ALL_DROPOUT, TrainingConfig())
    outputs = []
    for epoch in (1, 2):
        pack.rng.seek(epoch)
        outputs.append(pack.model(pack.graph, pack.rng).output)
    assert not torch.equal(*outputs)


def test_the_best_weights_are_kept_and_restored(graph):
    """What a result was evaluated with is what the pack held at its best epoch, not at its last."""
    (result,) = train_batch(graph, runs_of(graph, 1), ALL_DROPOUT, SHORT)
    assert result.best_epoch < result.epochs
    at_best = weights_after(graph, runs_of(graph, 1), result.best_epoch, training=SHORT)
    at_end = weights_after(graph, runs_of(graph, 1), result.epochs - 1, training=SHORT)
    for name, weight in result.weights.items():
        assert torch.equal(weight, at_best[name])
    assert not torch.equal(result.weights["predict.first.weight"], at_end["predict.first.weight"])

    tensors = DeviceGraph.of(graph)
    network = ALL_DROPOUT.build(tensors, RandomStream([0]))
    network.load_state_dict(result.weights)
    with torch.no_grad():
        assert np.array_equal(network(tensors).output[0].numpy(), result.logits)


def test_the_best_epoch_is_the_best_of_the_history(graph):
    for watch in ("stopping", "training"):
        (result,) = train_batch(graph, runs_of(graph, 1), ALL_DROPOUT, replace(SHORT, monitor=monitor))
        losses = getattr(result.history, f"{watch}_loss")
        order = list(zip(result.history.stopping_accuracy, -losses, strict=True))
        assert max(order) == order[result.best_epoch - 1]


def test_the_regularised_loss_is_that_of_the_stopping_set_and_the_weights(graph):
    pack = BatchedTrainer(
        DeviceGraph.of(graph), runs_of(graph, 2), ALL_DROPOUT, TrainingConfig(monitor="regularised", l2=0.3)
    )
    pack.step()
    found = pack.evaluate()
    shrunk = 0.3 / 2 * (pack.model.predict.first.weight**2).sum((1, 2))
    torch.testing.assert_close(pack.monitored_loss(found), found.stopping_loss + shrunk)
    pack.config = TrainingConfig(monitor="stopping", l2=0.3)
    assert torch.equal(pack.monitored_loss(found), found.stopping_loss)


def test_the_watched_loss_decides_when_to_stop(graph):
    ends = {monitor: train_batch(graph, runs_of(graph, 1), ALL_DROPOUT, replace(SHORT, monitor=monitor, l2=0.3))[0].epochs
            for monitor in get_args(Monitor)}  # fmt: skip
    assert len(set(ends.values())) == 3


@pytest.mark.parametrize("every", [1, 3, 5])
def test_the_halting_unit_moves_on_every_fifth_epoch_only_momentum_included(graph, every):
    config = APGCNConfig(hidden_channels=16, penalty=0.1, halting_interval=every)
    pack = BatchedTrainer(DeviceGraph.of(graph), runs_of(graph, 2), config, TrainingConfig())
    moved = []
    for _ in range(15):
        before = {name: weight.detach().clone() for name, weight in pack.model.named_parameters()}
        pack.epoch()
        moved.append({name for name, weight in pack.model.named_parameters() if not torch.equal(weight, before[name])})
    unit = {"propagation.halting_unit.weight", "propagation.halting_unit.bias"}
    for epoch, names in enumerate(moved, start=1):
        assert names & unit == (unit if epoch % every == 0 else set()), epoch
        assert "predict.first.weight" in names


def test_one_step_of_the_pack_is_one_step_of_torch_adam(graph):
    """The same forward pass, differentiated and stepped by hand."""
    tensors, run = DeviceGraph.of(graph), runs_of(graph, 1)[0]
    ours = weights_after(graph, [run], epochs=1)

    rng = RandomStream([run.rng_seed])
    network = ALL_DROPOUT.build(tensors, rng)
    rng.seek(1)
    outcome = network(tensors, rng)
    nodes = torch.from_numpy(run.split.train.copy())
    loss = torch.nn.functional.cross_entropy(outcome.output[0, nodes], tensors.labels[nodes])
    loss = loss + 0.008 / 2 * network.predict.first.weight.square().sum()
    loss = loss + ALL_DROPOUT.penalty * (outcome.steps + outcome.remainder)[0, nodes].mean()
    loss.backward()
    halting_unit = set(network.propagation.halting_unit.parameters())
    torch.optim.Adam([weight for weight in network.parameters() if weight not in halting_unit], lr=0.01).step()
    for name, weight in network.named_parameters():
        torch.testing.assert_close(ours[name], weight.detach(), rtol=1e-4, atol=1e-6)


def test_a_pack_learns(graph):
    """Labels that can be read off the features of a node without neighbours are found, where guessing finds a third."""
    features = np.eye(3)[graph.labels] + graph.features[:, :3] / 2
    learnable = replace(graph, adjacency=graph.adjacency * 0, features=features)
    results = train_batch(learnable, runs_of(learnable, 4), APGCNConfig(), TrainingConfig(l2=0.0))
    assert min(result.test_accuracy for result in results) > 0.9


def test_a_diverged_run_keeps_its_initial_weights_and_says_so(graph):
    run = runs_of(graph, 1)[0]
    (result,) = train_batch(graph, [run], ALL_DROPOUT, TrainingConfig(learning_rate=1e30, patience=5))
    assert result.best_epoch == 0
    assert torch.equal(result.weights["predict.first.weight"], weights_after(graph, [run], 0)["predict.first.weight"])


def test_results_come_in_the_order_of_the_runs_whatever_the_packs(graph, monkeypatch):
    monkeypatch.setattr("apgcn.training.batching.MAX_ON_CPU", 2)
    runs, seen = runs_of(graph, 5), []
    results = train(graph, runs, ALL_DROPOUT, SHORT, progress=seen.append)
    assert [result.run for result in results] == runs
    assert seen[-1].done == 5
    assert seen[-1].share == pytest.approx(1)
    assert all(0 < at.share <= 1 + 1e-9 for at in seen)


def test_packs_are_few_and_nearly_equal(graph):
    assert [len(pack) for pack in divide(runs_of(graph, 20), most=8)] == [6, 7, 7]
    assert divide(runs_of(graph, 3), most=8) == [[0, 1, 2]]


def test_runs_with_sets_of_different_sizes_go_into_packs_of_their_own(graph):
    runs = runs_of(graph, 4)
    for number in (1, 2):
        runs[number] = replace(runs[number], split=replace(runs[number].split, train=runs[number].split.train[:5]))
    assert divide(runs, most=8) == [[0, 3], [1, 2]]
    results = train(graph, runs, ALL_DROPOUT, SHORT)
    assert [result.run for result in results] == runs


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dataset": "another"}, "a run of 'another' cannot be trained on 'random'"),
        ({"split": Split([0], [60])}, "stopping must hold nodes of random, 0 to 59, got 60"),
        ({"split": Split([0], [1], test=[99])}, "test must hold nodes of random"),
        ({"split": Split([0, 7], [1])}, "train set must have a label, but that of node 7 is -1"),
        ({"split": Split([0], [])}, "the stopping set of a split must not be empty"),
    ],
)
def test_a_run_that_does_not_fit_the_graph_is_refused_before_training(graph, change, sentence):
    labels = graph.labels.copy()
    labels[7] = -1
    run = replace(runs_of(graph, 1)[0], **{"split": Split([0], [1]), **change})
    with pytest.raises(InvalidInput, match=sentence):
        train(replace(graph, labels=labels), [run], ALL_DROPOUT)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"runs": []}, "at least one run"),
        ({"runs": "run"}, "runs must hold runs"),
        ({"runs": Run(Split([0], [1]))}, "runs must be a list of runs"),
        ({"model": TrainingConfig()}, "model must be the settings of a model"),
        ({"device": "tpu"}, "device must be cpu, cuda or cuda:N, got 'tpu'"),
    ],
)
def test_other_mistakes_in_a_call_are_told_in_words(graph, arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        train(**{"graph": graph, "runs": runs_of(graph, 1), "model": ALL_DROPOUT, **arguments})


def test_a_graph_without_features_cannot_be_trained_on(graph):
    with pytest.raises(InvalidInput, match="at least one feature"):
        train(replace(graph, features=np.zeros((60, 0))), runs_of(graph, 1), ALL_DROPOUT)


def test_nodes_without_a_label_do_not_count_as_wrong(graph):
    run = runs_of(graph, 1)[0]
    labels = graph.labels.copy()
    labels[run.split.test[:10]] = -1
    (whole,), (partly,) = (train(one, [run], ALL_DROPOUT, SHORT) for one in (graph, replace(graph, labels=labels)))
    assert np.array_equal(whole.logits, partly.logits)
    assert partly.test_accuracy == whole.accuracy(run.split.test[10:])


def test_training_gives_the_threads_back(graph):
    torch.set_num_threads(2)
    seen = []
    train(graph, runs_of(graph, 1), ALL_DROPOUT, SHORT, progress=lambda _: seen.append(torch.get_num_threads()))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


def test_results_show_themselves_in_a_line(graph):
    (result,) = train(graph, runs_of(graph, 1), ALL_DROPOUT, SHORT)
    assert repr(result).startswith("RunResult(Run(split=Split(seed=0, train=12, stopping=18, validation=10, test=20)")
    assert len(repr(result)) < 300
    assert len(repr(result.history)) < 30


def test_a_large_graph_gets_a_small_pack_and_one_that_cannot_fit_is_refused(graph, monkeypatch):
    config = APGCNConfig()
    needed = bytes_per_run(graph, config, torch.device("cpu"))
    for memory, size in [(1000 * needed, 8), (5 * needed, 3), (needed, 1)]:
        monkeypatch.setattr("apgcn.training.batching.memory_of", lambda device, memory=memory: memory)
        assert pack_size(graph, config, torch.device("cpu")) == size
    monkeypatch.setattr("apgcn.training.batching.memory_of", lambda device: needed - 1)
    with pytest.raises(
        InvalidInput,
        match=f"one run of AP-GCN on random needs about {needed:,} bytes .* make max_steps or hidden smaller",
    ):
        pack_size(graph, config, torch.device("cpu"))


def test_packs_that_train_at_once_share_the_memory(graph, monkeypatch):
    config = APGCNConfig()
    needed = bytes_per_run(graph, config, torch.device("cpu"))
    monkeypatch.setattr("apgcn.training.batching.memory_of", lambda device: 10 * needed)
    sizes = [pack_size(graph, config, torch.device("cpu"), workers=workers) for workers in (1, 2, 4)]
    assert sizes == [6, 3, 1]  # 60 % of the memory of 10, 5 and 2.5 runs
    with pytest.raises(InvalidInput, match="for each of 11 workers; use fewer"):
        pack_size(graph, config, torch.device("cpu"), workers=11)


@pytest.mark.parametrize(("written", "expected"), [("1048576\n", 2**20), ("max\n", None)])
def test_a_container_has_no_more_memory_than_it_is_given(monkeypatch, written, expected):
    from pathlib import Path

    from apgcn.ops.devices import memory_of

    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(Path, "read_text", lambda path: written)
    assert memory_of(torch.device("cpu")) == (expected or machine)


def test_max_epochs_end_a_run(graph):
    (result,) = train_batch(graph, runs_of(graph, 1), ALL_DROPOUT, TrainingConfig(max_epochs=3))
    assert result.epochs == 3


def test_benchmark_runs_are_the_splits_first_then_the_next_initialisation(cora):
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


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux is asked")
def test_memory_that_an_epoch_frees_goes_back_to_the_system():
    """N-GCN makes and frees the most; without it the process grows by some megabytes an epoch on larger graphs."""
    cora = clean(load("cora"))
    held = []

    def look(at):
        held.append(int(Path("/proc/self/statm").read_text().split()[1]))

    train(cora, benchmark_runs(cora, 3), NGCNConfig(), TrainingConfig(max_epochs=20), progress=look)
    assert held[19] < 0.9 * held[18]


def test_a_signal_waits_until_the_optimiser_is_made(graph, monkeypatch):
    """PyTorch imports much for it, and Python loses an exception that comes up in a callback of an import."""
    made, adam = [], torch.optim.Adam

    def interrupted(*given, **options):
        signal.raise_signal(signal.SIGINT)
        made.append(adam(*given, **options))
        return made[-1]

    monkeypatch.setattr(torch.optim, "Adam", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(graph, runs_of(graph, 1), ALL_DROPOUT, SHORT)
    assert len(made) == 1
