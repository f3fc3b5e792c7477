"""`train` with another number of threads."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph

from apgcn import APGCNClassifier, APGCNConfig, TrainingConfig, train
from apgcn.data.splits import Split
from apgcn.errors import InvalidInput
from apgcn.inference.fit import fit
from apgcn.models.gcn import GCNConfig
from apgcn.ops import threads as threads_module
from apgcn.ops.threads import get_num_threads, kernel_threads
from apgcn.training.runs import Run

SHORT = TrainingConfig(max_epochs=4)
SPLIT = Split(train=np.arange(20), stopping=np.arange(20, 40), test=np.arange(40, 80))


@pytest.fixture(scope="module")
def graph():
    return replace(random_graph(80, edges=200, features=6), name="graph")


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch):
    for name in ("APGCN_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads_module, "available_cores", lambda: 8)


@pytest.fixture
def used(monkeypatch):
    """The numbers of threads of our kernels and of PyTorch that were in use when a model was called."""
    numbers = set()

    def record(module, *_):
        if not isinstance(module, torch.nn.Linear):
            numbers.add((get_num_threads(), torch.get_num_threads()))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(record)
    yield numbers
    handle.remove()


@pytest.mark.parametrize(("threads", "expected"), [(None, 8), (3, 3), (10_000, 8)])
def test_training_uses_the_threads_and_pytorch_one(graph, used, threads, expected):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(graph, [Run(SPLIT)], APGCNConfig(), SHORT, threads=threads)
        assert used == {(expected, 1)}
        assert (get_num_threads(), torch.get_num_threads()) == (1, 2)
    finally:
        torch.set_num_threads(before)


def test_an_enclosing_block_limits_a_training(graph, used):
    with kernel_threads(2):
        train(graph, [Run(SPLIT)], APGCNConfig(), SHORT)
    assert used == {(2, 1)}


@pytest.mark.parametrize("config", [APGCNConfig(), GCNConfig()])
def test_results_do_not_depend_on_the_number_of_threads(graph, config):
    results = [train(graph, [Run(SPLIT), Run(SPLIT, init=1)], config, SHORT, threads=number) for number in (1, 2, 5)]
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            assert np.array_equal(first.logits, second.logits)
            assert np.array_equal(first.steps, second.steps)
            assert np.array_equal(first.history.training_loss, second.history.training_loss)


def test_an_invalid_number_is_refused_before_training(graph, used):
    with pytest.raises(InvalidInput, match="threads must be an integer >= 1, got 0; leave it out"):
        train(graph, [Run(SPLIT)], APGCNConfig(), SHORT, threads=0)
    with pytest.raises(InvalidInput, match="threads must be an integer >= 1, got 'all'"):
        fit(graph, SPLIT, APGCNConfig(), SHORT, threads="all")
    assert not used


@pytest.mark.parametrize("config", [APGCNConfig(), GCNConfig()])
def test_a_trained_model_predicts_the_same_with_any_number_of_threads(graph, config):
    model = fit(graph, SPLIT, config, SHORT, threads=2)
    first, second = (model.predict(graph, threads=number) for number in (1, 4))
    assert np.array_equal(first.probabilities, second.probabilities)
    with pytest.raises(InvalidInput, match="threads must be an integer >= 1, got -1"):
        model.predict(graph, threads=-1)


def test_the_classifier_passes_its_threads_on(graph, used, tmp_path):
    pytest.importorskip("sklearn")
    labels = np.where(np.arange(80) % 2 == 0, graph.labels, -1)
    classifier = APGCNClassifier(threads=3, max_epochs=2).fit(graph.features, labels, adjacency=graph.adjacency)
    assert used == {(3, 1)}
    assert classifier.get_params()["threads"] == 3
    classifier.save(tmp_path / "m")
    loaded = APGCNClassifier.load(tmp_path / "m", threads=2)
    assert loaded.threads == 2
    assert np.array_equal(loaded.predict_proba(), classifier.predict_proba())


def test_runs_that_may_halt_before_any_step_train_alone_and_to_the_same_bits(graph):
    """Fused kernels compute their states only, so on a CPU they train one after the other."""
    runs = [Run(SPLIT, init=init, dataset="graph") for init in (0, 1)]
    config = APGCNConfig(min_steps=0)
    assert not config.has_fused_kernel
    assert APGCNConfig().has_fused_kernel
    together = train(graph, runs, config, SHORT)
    for run, result in zip(runs, together, strict=True):
        (alone,) = train(graph, [run], config, SHORT)
        np.testing.assert_array_equal(result.logits, alone.logits)
