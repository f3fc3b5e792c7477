"""Ranks that share a graph train what one process trains."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from helpers import ROOT
from helpers.rank_processes import (
    MAIN,
    NO_DROPOUT,
    WITHOUT_NUMBA,
    for_one_of_three_seeds,
    history,
    run_ranks,
    start_ranks,
    wait,
)

from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.inference.bundle import load_model

FROZEN = ["--set", "freeze_halted=true", "--penalty", "1", "--set", "halting_interval=1", "--set", "learning_rate=0.03"]
HALTED_RANK = str(ROOT / "tests" / "helpers" / "halted_rank.py")
SLOW_SAVE = f"""
import time
from datetime import timedelta
from apgcn.distributed import streaming_npz
from apgcn.distributed import communication
communication.RENDEZVOUS_TIMEOUT = timedelta(seconds=4)
save = streaming_npz.NpzSource.save
streaming_npz.NpzSource.save = lambda *arguments, **options: [time.sleep(6), save(*arguments, **options)]
{MAIN}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_ranks", "dataset", "options", "code"),
    [
        (1, "cora_ml", [], MAIN),
        (2, "cora_ml", [], MAIN),
        (2, "cora_ml", [], WITHOUT_NUMBA),
        (2, "cora_ml", [*FROZEN, "--partition", "blocks"], MAIN),
        (2, "cora", FROZEN, WITHOUT_NUMBA),
        (3, "cora_ml", [*FROZEN, "--model", "ap-appnp", "--partition", "blocks"], MAIN),
        (2, "cora", ["--set", "min_steps=0"], MAIN),
        (2, "cora", ["--model", "ap-appnp"], MAIN),
        (2, "cora_ml", ["--model", "ap-arma"], MAIN),
        (2, "cora", ["--model", "gcn"], MAIN),
        (2, "cora", ["--model", "vgcn"], MAIN),
        (2, "cora", ["--model", "appnp"], MAIN),
    ],
)
def test_ranks_train_what_one_process_trains(num_ranks, dataset, options, code, benchmark_graph, tmp_path):
    """Losses of thirty epochs without dropout, from the same key and seed."""
    benchmark_graph(dataset)
    common = ["train", dataset, "--set", "max_epochs=30", "--set", "patience=30", *NO_DROPOUT]
    single_options = [option for option in options if option not in ("--partition", "blocks")]

    def compare(seed):
        single, sharded = tmp_path / f"single {seed}", tmp_path / f"sharded {seed}"
        assert run([*common, *single_options, "--seed", str(seed), "--out", str(single)]) == 0
        run_ranks(num_ranks, [*common, *options, "--seed", seed, "--out", sharded], code=code)
        expected, actual = history(single), history(sharded)
        assert actual.shape == (30, 4)
        np.testing.assert_allclose(actual[:, :2], expected[:, :2], atol=1e-4)
        np.testing.assert_allclose(actual[:, 2:], expected[:, 2:], atol=0.005)  # a single node is some 0.001 of it
        if options[:2] == FROZEN[:2]:
            assert expected[:, 3].min() < 8, "nodes must halt early, or freezing has little effect"
        with np.load(single / "nodes.npz") as one, np.load(sharded / "nodes.npz") as other:
            same_steps = (other["steps"] == one["steps"])[0]  # rounding may take a node over its budget: another 1 / K
            close = (np.abs(other["logits"] - one["logits"]) <= 1e-3).all(axis=-1)[0]
        assert same_steps.mean() > 0.99
        assert close.mean() > 0.99
        if "freeze_halted=true" not in options:  # there, nodes receive states that were frozen at another step
            assert close[same_steps].all()

    for_one_of_three_seeds(compare)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--set", "learning_rate=0.2"],
        ["--set", "learning_rate=0.05", "--set", "monitor=regularised", "--set", "early_stop_mode=tie"],
    ],
)
def test_ranks_stop_at_the_epoch_of_one_process(options, tmp_path):
    """After some 15 epochs: in few epochs, rounding is amplified little."""
    common = ["train", "cora", "--set", "patience=3", *NO_DROPOUT, *options]

    def compare(seed):
        single, sharded = tmp_path / f"single {seed}", tmp_path / f"sharded {seed}"
        assert run([*common, "--seed", str(seed), "--out", str(single)]) == 0
        run_ranks(2, [*common, "--seed", seed, "--out", sharded])
        expected, actual = history(single), history(sharded)
        assert 5 < len(actual) == len(expected) < 100
        np.testing.assert_allclose(actual[:, :2], expected[:, :2], atol=1e-3)

    for_one_of_three_seeds(compare)


@pytest.mark.slow
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_with_dropout_the_accuracy_is_that_of_other_runs(num_ranks, benchmark_graph, tmp_path):
    """Two ranks draw other masks: the accuracy is in the interval that holds 95 % of the recorded runs."""
    benchmark_graph("cora_ml")
    records = [
        record.test_accuracy
        for record in Store(ROOT / "results" / "h200").records.values()
        if (record.dataset, record.model, record.hyperparameters.get("freeze_halted", False))
        == ("cora_ml", "apgcn", False)
        and record.train_per_class == 20
        and record.hyperparameters["penalty"] == 0.005
    ]
    assert len(records) >= 100
    run_ranks(num_ranks, ["train", "cora_ml", "--out", tmp_path / "m"])
    summary = json.loads((tmp_path / "m" / "summary.json").read_text())
    lower, upper = np.quantile(records, [0.025, 0.975])
    assert lower <= summary["accuracy_mean"] <= upper
    assert summary["ranks"] == num_ranks
    for traffic in summary["traffic"]:
        assert 0 <= traffic["communication_fraction"] <= 1
        assert (traffic["bytes"] > 0) == (num_ranks > 1)


@pytest.mark.slow
@pytest.mark.parametrize("reference", [[], ["plain"]])
@pytest.mark.parametrize("freeze", [[], ["freeze"]])
def test_a_rank_whose_nodes_have_halted_still_exchanges_rows(freeze, reference, tmp_path):
    """Nodes of rank 0 halt at step 1, those of rank 1 late: outputs and gradients are those of one process."""
    single_command = [sys.executable, HALTED_RANK, str(tmp_path / "single.npz"), "plain", *freeze]
    subprocess.run(single_command, check=True, timeout=240)
    commands = [[HALTED_RANK, str(tmp_path / f"{rank}.npz"), *freeze, *reference] for rank in range(2)]
    results = wait(start_ranks(commands))
    assert [status for status, _, _ in results] == [0, 0], results
    single, first, second = (np.load(tmp_path / f"{name}.npz") for name in ("single", 0, 1))
    assert set(first["steps"]) == {1}
    assert second["steps"].min() > 4
    assert first["exchanges"] == second["exchanges"]
    for sender, receiver in ((first, second), (second, first)):
        assert sender["bytes"] == 4 * 3 * receiver["halo_nodes"]  # a float for each of three channels
    for name in ("output", "steps"):
        np.testing.assert_allclose(np.concatenate([first[name], second[name]]), single[name], atol=1e-5)
    for rank in (first, second):
        np.testing.assert_allclose(rank["gradient"], single["gradient"], atol=1e-5)


@pytest.mark.slow
def test_all_ranks_stop_when_every_node_has_halted(tmp_path):
    """Every node halts at step 1, and no other step is taken: one exchange forward, one backward."""
    wait(start_ranks([[HALTED_RANK, str(tmp_path / f"{rank}.npz"), "all"] for rank in range(2)]))
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as arrays:
            assert set(arrays["steps"]) == {1}
            assert arrays["exchanges"] == 2


@pytest.mark.slow
def test_ranks_wait_while_one_rank_writes(archive, tmp_path):
    """Longer than the timeout of the rendezvous."""
    run_ranks(2, ["fit", "--graph", archive, "--out", tmp_path / "m", "--set", "max_epochs=3"], code=SLOW_SAVE)
    assert (tmp_path / "m" / "model.json").exists()


def test_ranks_write_the_folder_of_one_process_and_predictions_for_their_nodes(archive, tmp_path):
    results = run_ranks(2, ["fit", "--graph", archive, "--out", tmp_path / "m", "--set", "max_epochs=20", "--json"])
    summary = json.loads(results[0][1])
    assert summary["nodes"] == 400
    assert len(summary["traffic"]) == 2
    assert "rank 1:" in results[0][2]
    assert results[1][1:] == ("", "")
    assert run(["predict", str(tmp_path / "m"), "--out", str(tmp_path / "p.csv")]) == 0
    with (tmp_path / "p.csv").open(newline="") as file:
        expected = {row["id"]: row for row in csv.DictReader(file)}
    tables = sorted((tmp_path / "m" / "predictions").iterdir())
    assert [table.name for table in tables] == ["part-00000-of-00002.csv", "part-00001-of-00002.csv"]
    rows = [row for table in tables for row in csv.DictReader(table.read_text().splitlines())]
    assert len(rows) == len(expected) == 400
    for row in rows:
        other = expected[row["id"]]
        assert (row["prediction"], row["steps"], row["label"]) == (other["prediction"], other["steps"], other["label"])
        assert float(row["probability"]) == pytest.approx(float(other["probability"]), abs=1e-4)


@pytest.mark.slow
def test_a_rank_may_have_no_training_nodes(archive, tmp_path):
    """All labels are in the first half, and rows are divided into blocks."""
    with np.load(archive) as members:
        arrays = dict(members)
    arrays["labels"] = np.where(np.arange(400) < 150, arrays["labels"], -1)
    np.savez(tmp_path / "half.npz", **arrays)
    common = ["fit", "--graph", tmp_path / "half.npz", "--set", "max_epochs=30", "--partition", "blocks", *NO_DROPOUT]
    results = run_ranks(2, [*common, "--out", tmp_path / "two"])
    assert "halo nodes, no training nodes" in results[0][2]
    run_ranks(1, [*common, "--out", tmp_path / "one"])
    one, two = (load_model(tmp_path / name).model for name in ("one", "two"))
    for name, weight in one.weights.items():
        np.testing.assert_allclose(two.weights[name].numpy(), weight.numpy(), atol=1e-4)
