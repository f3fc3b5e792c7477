import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers import ROOT
from helpers.graphs import random_graph

from apgcn import APGCNConfig
from apgcn.benchmark.speed.pyg_baselines import _halting
from apgcn.benchmark.speed.targets import TARGETS, standing
from apgcn.cli import main
from apgcn.data.synthetic import synthetic_graph
from apgcn.errors import InvalidInput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


def bench(*arguments) -> dict:
    command = [sys.executable, "-m", "apgcn", "bench", "cora", "--rounds", "1", "--json", *arguments]
    return json.loads(subprocess.check_output(command, text=True))


def test_bench_says_how_fast_this_machine_is():
    found = bench("--packs", "1,2")
    epochs = {(one["what"], one["runs"]): one for one in found["graphs"][0]["epochs"]}
    assert set(epochs) == {("apgcn", 1), ("apgcn", 2), ("pyg_apgcn", 1), ("pyg_appnp", 1)}
    for one in epochs.values():
        assert one["epoch_low"] <= one["epoch_ms"] <= one["epoch_high"]
    ours = epochs["apgcn", 1]["epoch_ms"]
    assert found["speedup_over_pyg_apgcn"] == epochs["pyg_apgcn", 1]["epoch_ms"] / ours > 2
    assert found["speedup_over_pyg_appnp"] == epochs["pyg_appnp", 1]["epoch_ms"] / ours > 2
    assert found["hardware"]
    assert [line["what"] for line in found["targets"]] == [target.title for target in TARGETS[-2:]], (
        "cora is not cora_ml"
    )


def test_the_peer_computes_what_we_compute():
    """With dropout off and the same weights: output, steps and remainder."""
    graph = random_graph(40, edges=90, features=6)
    tensors, hyperparameters = DeviceGraph.of(graph), APGCNConfig(max_steps=5, edge_dropout=0.5)
    ours = hyperparameters.build(tensors, RandomStream([1])).propagation
    ours.halting_unit.weight.data.mul_(4)
    theirs = _halting(graph.num_classes, hyperparameters).eval()
    theirs.unit.weight.data = ours.halting_unit.weight.data[0].T
    theirs.unit.bias.data = ours.halting_unit.bias.data.flatten()
    seeds = 3 * torch.randn(1, 40, graph.num_classes, generator=torch.manual_seed(0))
    expected = theirs(seeds[0], torch.tensor(np.stack(graph.adjacency.nonzero())))
    for here, there in zip(ours(seeds, tensors.adjacency), expected, strict=True):
        torch.testing.assert_close(here[0].float(), there, rtol=1e-4, atol=1e-5)
    assert len(expected[1].unique()) > 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--packs", "1,two"], "packs must be whole numbers separated by commas"),
        (["--packs", "0"], "packs must be"),
        (["--edges", "12"], "edges must be"),
        (["coraml"], "did you mean"),
        (["--rounds", "0"], "rounds must be"),
        (["--edges", "0"], "edges must be"),
        (["cora", "--edges", "10000"], "leave out datasets and train"),
    ],
)
def test_a_mistyped_benchmark_is_told_in_words(arguments, part, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["apgcn", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert part in capsys.readouterr().err


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch, capsys):
    made = []
    monkeypatch.setattr("apgcn.ops.devices.memory_of", lambda device: 2**30)

    def noted(nodes, **sizes):
        made.append(sizes)
        return synthetic_graph(nodes, **sizes)

    monkeypatch.setattr("apgcn.data.synthetic.synthetic_graph", noted)
    monkeypatch.setattr(sys, "argv", ["apgcn", "bench", "--edges", "50000000"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "one run on 50,000,000 edges needs about" in (told := capsys.readouterr().err)
    assert "make --edges smaller" in told
    assert [sizes["edges"] for sizes in made] == [10_000]


def test_a_made_graph_has_hubs_communities_and_features_that_say_a_little():
    graph = synthetic_graph(3000, edges=15_000, classes=5, seed=1)
    degrees = np.diff(graph.adjacency.indptr)
    assert (graph.num_nodes, graph.num_directed_edges, graph.num_classes) == (3000, 30_000, 5)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert graph.adjacency.diagonal().sum() == 0
    assert set(graph.adjacency.data) == {1.0}
    assert degrees.max() > 8 * degrees.mean()
    rows, columns = graph.adjacency.nonzero()
    assert (
        0.75 < (graph.labels[rows] == graph.labels[columns]).mean() < 0.95
    )  # 0.8 at home, a fifth of the rest by chance
    halves = np.arange(3000) % 2 == 0
    means = np.stack([graph.features[halves & (graph.labels == one)].mean(axis=0) for one in range(5)])
    guessed = (graph.features[~halves] @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
    assert 0.3 < (guessed == graph.labels[~halves]).mean() < 0.9
    again = synthetic_graph(3000, edges=15_000, classes=5, seed=1)
    assert (again.adjacency != graph.adjacency).nnz == 0
    assert np.array_equal(again.features, graph.features)
    assert (synthetic_graph(3000, edges=15_000, classes=5, seed=2).adjacency != graph.adjacency).nnz > 0


def test_a_graph_that_cannot_be_made_is_said():
    with pytest.raises(InvalidInput, match="got 20 nodes and 100 edges"):
        synthetic_graph(20, edges=100, classes=3)


def test_bars_are_met_from_the_right_side():
    measured = {"speedup_over_pyg_apgcn": 30.0, "cora_ml_100_cuda_seconds": 7.0, "everything_seconds": 2.5}
    assert [line["verdict"] for line in standing(measured)] == ["must reached", "aim reached", "not reached"]


def test_the_page_says_what_the_results_say():
    subprocess.run([sys.executable, ROOT / "benchmarks" / "write"], check=True)


def test_too_large_a_graph_is_refused_before_anything_is_allocated(monkeypatch):
    from apgcn.training.batching import fitting

    monkeypatch.setattr("apgcn.training.batching.memory_of", lambda device: 10**6)
    with pytest.raises(InvalidInput, match=r"needs about .* bytes of memory .*make max_steps or hidden smaller"):
        fitting(random_graph(400, edges=900), APGCNConfig(), torch.device("cpu"))
