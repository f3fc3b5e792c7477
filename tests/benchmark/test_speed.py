"""Benchmarks of speed: `apgcn bench`, the PyTorch Geometric baselines, synthetic graphs and targets."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from helpers import ROOT
from helpers.graphs import random_graph

from apgcn import APGCNConfig, benchmark_runs, clean, load, preset_config, train
from apgcn.benchmark.speed.end_to_end import time_trainings
from apgcn.benchmark.speed.pyg_baselines import build_adaptive_propagation
from apgcn.benchmark.speed.targets import TARGETS, compare_with_targets
from apgcn.cli import main, run
from apgcn.data.synthetic import synthetic_graph
from apgcn.errors import InvalidInput
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream


def test_bench_times_our_epoch_and_the_baselines(monkeypatch, capsys):
    monkeypatch.setattr("apgcn.benchmark.speed.end_to_end.IMPORT_REPEATS", 1)
    assert run(["bench", "cora", "--repeats", "1", "--json", "--batch-sizes", "1,2"]) == 0
    measured = json.loads(capsys.readouterr().out)
    epochs = {(epoch["name"], epoch["runs"]): epoch for epoch in measured["graphs"][0]["epochs"]}
    assert set(epochs) == {("apgcn", 1), ("apgcn", 2), ("pyg_apgcn", 1), ("pyg_appnp", 1)}
    for epoch in epochs.values():
        assert epoch["epoch_low"] <= epoch["epoch_ms"] <= epoch["epoch_high"]
    ours = epochs["apgcn", 1]["epoch_ms"]
    assert measured["speedup_over_pyg_apgcn"] == epochs["pyg_apgcn", 1]["epoch_ms"] / ours > 2
    assert measured["speedup_over_pyg_appnp"] == epochs["pyg_appnp", 1]["epoch_ms"] / ours > 2
    assert measured["hardware"]
    assert [target["name"] for target in measured["targets"]] == [target.title for target in TARGETS[-2:]], (
        "cora is not cora_ml"
    )


def test_epochs_with_several_numbers_of_threads_are_timed_in_turns(tmp_path):
    file = tmp_path / "threads.json"
    command = [
        sys.executable,
        ROOT / "benchmarks" / "threads",
        "--dataset",
        "cora",
        "--threads",
        "2,1",
        "--repeats",
        "2",
    ]
    subprocess.check_call([*command, "--no-baselines", "--out", file], stdout=subprocess.DEVNULL)
    record = json.loads(file.read_text())
    assert [(epoch["name"], epoch["threads"], epoch["epochs"]) for epoch in record["epochs"]] == [
        ("apgcn", 1, 6),
        ("apgcn", 2, 6),
    ]
    one, two = (epoch["ms"] for epoch in record["epochs"])
    assert record["speedup_of_threads"] == one / two
    assert record["speedup_over_best"] == {}
    assert (record["dataset"], record["nodes"], record["hardware"] != "") == ("cora", 2485, True)


@pytest.mark.parametrize("workers", [1, 2])
def test_timed_trainings_are_the_first_runs_of_the_protocol(monkeypatch, workers):
    monkeypatch.setattr("apgcn.training.batching.MAX_CPU_BATCH", 2)
    monkeypatch.setattr(
        "apgcn.benchmark.config.preset_config", lambda dataset, **values: preset_config(dataset, max_epochs=5)
    )
    timing = time_trainings("cora", 4, device="cpu", workers=workers)
    graph = clean(load("cora"))
    results = train(graph, benchmark_runs(graph, 4), *preset_config("cora", max_epochs=5))
    assert (timing.runs, timing.workers, timing.epochs_max, timing.epochs_mean) == (4, workers, 5, 5.0)
    assert timing.accuracy_mean == pytest.approx(np.mean([result.test_accuracy for result in results]))
    assert timing.seconds > 0
    assert timing.memory > 2**26


def test_pyg_baseline_computes_the_same_propagation():
    """With dropout off and the same weights: output, steps and remainder."""
    graph = random_graph(40, edges=90, features=6)
    device_graph, config = DeviceGraph.from_graph(graph), APGCNConfig(max_steps=5, edge_dropout=0.5)
    ours = config.build(device_graph, RandomStream([1])).propagation
    ours.halting_unit.weight.data.mul_(4)
    baseline = build_adaptive_propagation(graph.num_classes, config).eval()
    baseline.halting_unit.weight.data = ours.halting_unit.weight.data[0].T
    baseline.halting_unit.bias.data = ours.halting_unit.bias.data.flatten()
    z0 = 3 * torch.randn(1, 40, graph.num_classes, generator=torch.manual_seed(0))
    expected = baseline(z0[0], torch.tensor(np.stack(graph.adjacency.nonzero())))
    for actual, desired in zip(ours(z0, device_graph.adjacency), expected, strict=True):
        torch.testing.assert_close(actual[0].float(), desired, rtol=1e-4, atol=1e-5)
    assert len(expected[1].unique()) > 1


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--batch-sizes", "1,two"], "--batch-sizes must be integers separated by commas"),
        (["--batch-sizes", "0"], "batch size must be"),
        (["--edges", "12"], "edges must be"),
        (["coraml"], "did you mean"),
        (["--repeats", "0"], "repeats must be"),
        (["--edges", "0"], "edges must be"),
        (["cora", "--edges", "10000"], "leave out the datasets and --train"),
    ],
)
def test_invalid_arguments_end_with_an_error_message(arguments, part, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["apgcn", "bench", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    assert part in capsys.readouterr().err


def test_graph_too_large_for_memory_is_refused_before_it_is_generated(monkeypatch, capsys):
    generated = []
    monkeypatch.setattr("apgcn.ops.devices.available_memory", lambda device: 2**30)

    def record_sizes(nodes, **sizes):
        generated.append(sizes)
        return synthetic_graph(nodes, **sizes)

    monkeypatch.setattr("apgcn.data.synthetic.synthetic_graph", record_sizes)
    monkeypatch.setattr(sys, "argv", ["apgcn", "bench", "--edges", "50000000"])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    message = capsys.readouterr().err
    assert "one run on 50,000,000 edges needs about" in message
    assert "make --edges smaller" in message
    assert [sizes["edges"] for sizes in generated] == [10_000]


def test_synthetic_graph_has_hubs_communities_and_weakly_informative_features():
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
    )  # 0.8 within the class, a fifth of the rest by chance
    halves = np.arange(3000) % 2 == 0
    means = np.stack([graph.features[halves & (graph.labels == label)].mean(axis=0) for label in range(5)])
    predicted = (graph.features[~halves] @ means.T - (means**2).sum(axis=1) / 2).argmax(axis=1)
    assert 0.3 < (predicted == graph.labels[~halves]).mean() < 0.9
    again = synthetic_graph(3000, edges=15_000, classes=5, seed=1)
    assert (again.adjacency != graph.adjacency).nnz == 0
    assert np.array_equal(again.features, graph.features)
    assert (synthetic_graph(3000, edges=15_000, classes=5, seed=2).adjacency != graph.adjacency).nnz > 0


def test_too_many_edges_for_the_nodes_are_rejected():
    with pytest.raises(InvalidInput, match="got 20 nodes and 100 edges"):
        synthetic_graph(20, edges=100, classes=3)


def test_targets_are_reached_from_above_or_from_below():
    measured = {"speedup_over_pyg_apgcn": 30.0, "cora_ml_100_cuda_seconds": 7.0, "all_names_seconds": 2.5}
    verdicts = [target["verdict"] for target in compare_with_targets(measured)]
    assert verdicts == ["must reached", "aim reached", "not reached"]


def test_pages_are_up_to_date_with_the_results():
    subprocess.run([sys.executable, ROOT / "benchmarks" / "write"], check=True)


def test_run_too_large_for_memory_is_refused_before_anything_is_allocated(monkeypatch):
    from apgcn.training.batching import max_runs_in_memory

    monkeypatch.setattr("apgcn.training.batching.available_memory", lambda device: 10**6)
    message = r"needs about .* bytes of memory .*make max_steps or hidden_channels smaller"
    with pytest.raises(InvalidInput, match=message):
        max_runs_in_memory(random_graph(400, edges=900), APGCNConfig(), torch.device("cpu"))


def test_ensembles_are_the_initialisations_of_each_split():
    command = [sys.executable, ROOT / "benchmarks" / "ensembles", "cora", "--members", "2", "--set", "max_epochs=30"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(finished.stdout)
    assert (len(record["members"]), len(record["ensembles"])) == (40, 20)
    splits = [row["split"] for row in record["ensembles"]]
    assert len(set(splits)) == 20
    assert [row["split"] for row in record["members"]] == [split for split in splits for _ in range(2)]
    assert record["overrides"] == {"max_epochs": 30}
    alone, together = (np.mean([row["log_loss"] for row in record[name]]) for name in ("members", "ensembles"))
    assert together < alone  # the logarithm is concave
