"""Ranks that share a graph train what one rank trains, and say what goes wrong."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT
from safetensors import safe_open
from scipy import sparse

from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.cli.distributed import checkpoint_of
from apgcn.data.npz import read_npz, write_npz
from apgcn.data.synthetic import synthetic_graph
from apgcn.distributed.checkpoint import read_checkpoint, restore, write_checkpoint
from apgcn.distributed.graph_shard import part_of
from apgcn.distributed.partition import by_metis, check_owners, in_blocks, way_of
from apgcn.distributed.streaming_npz import Archive
from apgcn.errors import BrokenFile, InvalidInput, MissingFile, MissingPackage
from apgcn.inference.bundle import fingerprint, load_model
from apgcn.models.apgcn import APGCNConfig
from apgcn.ops.device_graph import DeviceGraph
from apgcn.training.config import TrainingConfig
from apgcn.training.runs import benchmark_runs
from apgcn.training.trainer import BatchedTrainer

STILL = ["--set", "dropout=0", "--set", "edge_dropout=0"]


MAIN = "from apgcn.cli import main; main()"
PLAIN = f"import sys; sys.modules['numba'] = None; {MAIN}"  # without numba
SLOW = f"""
import time
from datetime import timedelta
from apgcn.distributed import streaming_npz
from apgcn.distributed import communication
communication.MEET_WITHIN = timedelta(seconds=4)
fast = streaming_npz.Archive.save
streaming_npz.Archive.save = lambda *given, **more: [time.sleep(6), fast(*given, **more)]
{MAIN}
"""


def start(ranks, arguments, *, code=MAIN, arguments_of=None, code_of=None):
    """Processes as `torchrun` would start them; one of them may be given other arguments, or be another program."""
    return as_ranks(
        [
            ["-c", (code_of or {}).get(rank, code), "train", *map(str, mine), "--distributed"]
            for rank in range(ranks)
            for mine in [(arguments_of or {}).get(rank, arguments)]
        ]
    )


def as_ranks(commands):
    """A process of Python for each rank."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    processes = []
    for rank, command in enumerate(commands):
        given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(commands)}
        given |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in given.items()}}
        processes.append(
            subprocess.Popen(
                [sys.executable, *command],
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    return processes


def ended(processes, *, within=240):
    """Exit status, standard output and standard error of each."""
    found = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=within)
            found.append((process.returncode, out, err))
    finally:
        for process in processes:
            process.kill()
    return found


def together(ranks, arguments, **given):
    found = ended(start(ranks, arguments, **given))
    assert [status for status, _, _ in found] == [0] * ranks, found
    return found


def history(folder):
    with (folder / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = ("training_loss", "stopping_loss", "stopping_accuracy", "steps_mean")
    return np.array([[float(row[name]) for name in columns] for row in rows])


@pytest.fixture(scope="module")
def club(tmp_path_factory):
    """An archive of a made graph, whose nodes halt at different steps."""
    graph = synthetic_graph(400, edges=1500, features=12, classes=3)
    path = tmp_path_factory.mktemp("club") / "club.npz"
    names = tuple(f"node {number}" for number in range(400))
    write_npz(path, replace(graph, node_names=names))
    return path


# --- parts ---


@pytest.mark.parametrize("way", ["metis", "blocks"])
def test_every_node_has_one_owner_and_all_have_work(way):
    graph = synthetic_graph(2000, edges=12000, classes=4)
    adjacency = graph.adjacency
    owner = by_metis(adjacency, 3) if way == "metis" else in_blocks(adjacency.indptr, 3)
    assert owner.shape == (2000,)
    work = np.bincount(owner, weights=1 + np.diff(adjacency.indptr))
    assert work.max() < 1.25 * work.min()
    if way == "metis":
        sources = np.repeat(np.arange(2000), np.diff(adjacency.indptr))
        cut = (owner[sources] != owner[adjacency.indices]).mean()
        blocks = in_blocks(adjacency.indptr, 3)
        assert cut < 0.6 * (blocks[sources] != blocks[adjacency.indices]).mean()


def test_metis_takes_directed_edges_and_loops():
    edges = sparse.csr_matrix(([1.0, 1, 1, 1], ([0, 1, 2, 3], [1, 1, 3, 3])), shape=(4, 4))
    owner = by_metis(edges, 2)
    assert owner[0] == owner[1] != owner[2] == owner[3]


def test_parts_put_together_are_the_whole():
    """Directed, weighted, loops: what rows of all parts hear is what the graph's nodes hear."""
    random = np.random.default_rng(0)
    edges = sparse.random(50, 50, density=0.1, random_state=random, format="csr", dtype=np.float32)
    graph = replace(synthetic_graph(50, edges=100, classes=2), adjacency=edges)
    owner = random.integers(3, size=50).astype(np.int16)
    whole = np.zeros((50, 50), np.float32)
    for rank in range(3):
        part = part_of(graph, owner, rank)
        assert (owner[part.own] == rank).all()
        assert (np.diff(owner[part.ghosts]) >= 0).all()
        whole[np.ix_(part.own, np.concatenate([part.own, part.ghosts]))] += part.heard.toarray()
        np.testing.assert_array_equal(part.features, graph.features[part.own])
        assert part.local(np.array([0, 20, 49])).tolist() == [
            int(np.flatnonzero(part.own == node)[0]) for node in (0, 20, 49) if owner[node] == rank
        ]
    expected = edges.toarray().T
    np.fill_diagonal(expected, 1)
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("dense", [True, False])
def test_an_archive_read_in_pieces_gives_the_same_parts(dense, tmp_path, monkeypatch):
    monkeypatch.setattr("apgcn.distributed.streaming_npz.PIECE", 97)
    graph = synthetic_graph(300, edges=900, features=7, classes=3)
    if not dense:
        graph = replace(graph, features=sparse.csr_matrix(np.maximum(graph.features, 0)))
    graph = replace(graph, node_names=tuple(f"n{number}" for number in range(300)))
    write_npz(tmp_path / "g.npz", graph)
    archive = Archive(tmp_path / "g.npz")
    assert (archive.nodes, archive.features, archive.class_names) == (300, 7, graph.class_names)
    assert archive.fingerprint() == fingerprint(graph)
    for way in ("metis", "blocks"):
        owner = archive.owners(3, way)
        for rank in range(3):
            mine, expected = archive.part(owner, rank), part_of(graph, owner, rank)
            np.testing.assert_array_equal(mine.own, expected.own)
            np.testing.assert_array_equal(mine.ghosts, expected.ghosts)
            assert (mine.heard != expected.heard).nnz == 0
            assert np.abs(mine.features - expected.features).max() == 0
            assert archive.names(mine.own) == [f"n{number}" for number in mine.own]


def test_what_is_no_archive_is_said(tmp_path, club):
    with pytest.raises(MissingFile, match="cannot be read"):
        Archive(tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(BrokenFile, match="not an archive that `write_npz` wrote"):
        Archive(tmp_path / "text.npz")
    with np.load(club) as members:
        arrays = dict(members)
    for name, values, sentence in (
        ("adj_indices", arrays["adj_indices"][::-1].copy(), "rows must be in order"),
        ("adj_data", -arrays["adj_data"], "edge weights must be > 0"),
        ("attr_dense", np.full_like(arrays["attr_dense"], np.nan), "features must be finite"),
        ("adj_data", arrays["adj_data"].astype(np.float64), "must hold float32"),
        ("adj_indices", arrays["adj_indices"] + 400, "places must be from 0 to 399"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: values})
        archive = Archive(tmp_path / "bad.npz")
        with pytest.raises(BrokenFile, match=sentence):
            archive.part(np.zeros(400, np.int16), 0)
    for name, values, sentence in (
        ("labels", arrays["labels"] + 3, "labels must be from -1 to 2"),
        ("labels", arrays["labels"][1:], "labels must be an int64 for each of 400 nodes"),
        ("adj_indptr", arrays["adj_indptr"] - 1, "row pointers must rise from 0"),
        ("adj_indices", arrays["adj_indices"][:-5], r"adj_indices must have shape \(\d+,\), got"),
        (
            "attr_dense",
            np.tile(arrays["attr_dense"], (2, 1)),
            r"must have shape \(400, 12\), got \(800, 12\)",
        ),
        ("node_names", arrays["node_names"][1:], "node_names must have shape"),
        ("node_names", arrays["node_names"].astype(np.bytes_), "node_names must be texts"),
        ("class_names", np.array("a"), "class_names must be texts"),
        ("adj_indptr", arrays["adj_indptr"].reshape(1, -1), "row pointers must rise from 0"),
        ("attr_dense", arrays["attr_dense"].ravel(), "not an archive that `write_npz` wrote"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: values})
        with pytest.raises(BrokenFile, match=sentence):
            Archive(tmp_path / "bad.npz")
    content = bytearray(club.read_bytes())
    with zipfile.ZipFile(club) as archive:
        place = archive.getinfo("adj_indices.npy").header_offset + 300
    content[place : place + 40] = bytes(40)
    (tmp_path / "damaged.npz").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"not an archive that `write_npz` wrote \(error: Error -3"):
        Archive(tmp_path / "damaged.npz").part(np.zeros(400, np.int16), 0)


def test_without_pymetis_there_are_blocks(monkeypatch):
    assert way_of("auto") == "metis"
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert way_of("auto") == "blocks"
    with pytest.raises(MissingPackage, match=r'pip install "apgcn\[metis\]", or say --partition blocks'):
        way_of("metis")


def test_the_recorded_memory_of_two_ranks_is_what_we_claim():
    runs = json.loads((ROOT / "benchmarks" / "results" / "distributed.json").read_text())["runs"]
    peaks = [(run["ranks"], max(one["peak_memory"] for one in run["traffic"])) for run in runs]
    (whole,) = [peak for ranks, peak in peaks if ranks == 1]
    halves = [peak for ranks, peak in peaks if ranks == 2]
    assert len(halves) >= 2
    assert max(halves) <= 0.65 * whole


# --- training ---


FROZEN = ["--set", "freeze_halted=true", "--penalty", "1", "--set", "halting_interval=1", "--set", "learning_rate=0.03"]


@pytest.mark.parametrize(
    ("ranks", "dataset", "options", "code"),
    [
        (1, "cora_ml", [], MAIN),
        (2, "cora_ml", [], MAIN),
        (2, "cora_ml", [], PLAIN),
        (2, "cora_ml", [*FROZEN, "--partition", "blocks"], MAIN),
        (2, "cora", FROZEN, PLAIN),
        (3, "cora_ml", [*FROZEN, "--model", "ap-appnp", "--partition", "blocks"], MAIN),
        (2, "cora", ["--model", "ap-appnp"], MAIN),
        (2, "cora_ml", ["--model", "ap-arma"], MAIN),
        (2, "cora", ["--model", "gcn"], MAIN),
        (2, "cora", ["--model", "vgcn"], MAIN),
        (2, "cora", ["--model", "appnp"], MAIN),
    ],
)
def test_ranks_learn_what_one_process_learns(ranks, dataset, options, code, benchmark_graph, tmp_path):
    """Losses of fifty epochs without dropout, from the same key and seed."""
    benchmark_graph(dataset)
    common = [dataset, "--set", "max_epochs=50", "--set", "patience=50", *STILL]
    alone = [option for option in options if option not in ("--partition", "blocks")]

    def compare(seed):
        one, other = tmp_path / f"alone {seed}", tmp_path / f"together {seed}"
        assert run(["train", *common, *alone, "--seed", str(seed), "--out", str(one)]) == 0
        together(ranks, [*common, *options, "--seed", seed, "--out", other], code=code)
        expected, found = history(one), history(other)
        assert found.shape == (50, 4)
        np.testing.assert_allclose(found[:, :2], expected[:, :2], atol=1e-4)
        np.testing.assert_allclose(found[:, 2:], expected[:, 2:], atol=0.005)  # of which a single node is some 0.001
        if options[:2] == FROZEN[:2]:
            assert expected[:, 3].min() < 8, "nodes must halt early, or freezing shows little"
        with np.load(one / "nodes.npz") as here, np.load(other / "nodes.npz") as there:
            as_long = (there["steps"] == here["steps"])[0]  # rounding may take a node over its budget, to another 1 / K
            close = (np.abs(there["logits"] - here["logits"]) <= 1e-3).all(axis=-1)[0]
        assert as_long.mean() > 0.99
        assert close.mean() > 0.99
        if "freeze_halted=true" not in options:  # there others hear a node that halted at another step
            assert close[as_long].all()

    for_a_seed(compare)


def for_a_seed(compare):
    """Try three: a node at its budget, a unit at zero or Adam may enlarge rounding, and set a training apart.

    What is wrong for another reason is wrong for all. How often it happens: benchmarks/results/agreement-seeds.json.
    """
    for seed in (0, 1):
        try:
            return compare(seed)
        except AssertionError as error:
            print(f"seed {seed}: {error}")
    return compare(2)


@pytest.mark.parametrize("watching", [[], ["--set", "monitor=regularised", "--set", "early_stop_mode=tie"]])
def test_ranks_stop_at_the_epoch_of_one_process(watching, tmp_path):
    common = ["cora", "--set", "patience=3", "--set", "learning_rate=0.05", *STILL, *watching]

    def compare(seed):
        one, other = tmp_path / f"alone {seed}", tmp_path / f"together {seed}"
        assert run(["train", *common, "--seed", str(seed), "--out", str(one)]) == 0
        together(2, [*common, "--seed", seed, "--out", other])
        expected, found = history(one), history(other)
        assert len(found) == len(expected) < 100
        np.testing.assert_allclose(found[:, :2], expected[:, :2], atol=1e-3)

    for_a_seed(compare)


@pytest.mark.parametrize("ranks", [1, 2])
def test_with_dropout_one_rank_and_two_stop_where_others_do(ranks, benchmark_graph, tmp_path):
    """Two ranks draw it differently: accuracy lies in the interval that holds 95 % of the recorded runs."""
    benchmark_graph("cora_ml")
    records = [
        record.test_accuracy
        for record in Store(ROOT / "results" / "h200").records.values()
        if (record.dataset, record.model, record.config.get("freeze_halted", False)) == ("cora_ml", "apgcn", False)
        and record.train_per_class == 20
        and record.config["penalty"] == 0.005
    ]
    assert len(records) >= 100
    together(ranks, ["cora_ml", "--out", tmp_path / "m"])
    summary = json.loads((tmp_path / "m" / "summary.json").read_text())
    lower, upper = np.quantile(records, [0.025, 0.975])
    assert lower <= summary["accuracy_mean"] <= upper
    assert summary["ranks"] == ranks
    for one in summary["traffic"]:
        assert 0 <= one["share_of_time"] <= 1
        assert (one["bytes"] > 0) == (ranks > 1)


@pytest.mark.parametrize("plain", [[], ["plain"]])
@pytest.mark.parametrize("freeze", [[], ["freeze"]])
def test_a_rank_whose_nodes_have_halted_serves_the_others(freeze, plain, tmp_path):
    """Nodes of rank 0 halt at step 1, those of rank 1 late: outputs and gradients are those of one process."""
    script = str(ROOT / "tests" / "halted_rank.py")
    subprocess.run([sys.executable, script, str(tmp_path / "alone.npz"), "plain", *freeze], check=True, timeout=240)
    commands = [[script, str(tmp_path / f"{rank}.npz"), *freeze, *plain] for rank in range(2)]
    found = ended(as_ranks(commands))
    assert [status for status, _, _ in found] == [0, 0], found
    alone, first, second = (np.load(tmp_path / f"{name}.npz") for name in ("alone", 0, 1))
    assert set(first["steps"]) == {1}
    assert second["steps"].min() > 4
    assert first["exchanges"] == second["exchanges"]
    for one, other in ((first, second), (second, first)):
        assert one["bytes"] == 4 * 3 * other["ghosts"]  # of a float for each of three channels
    for name in ("output", "steps"):
        np.testing.assert_allclose(np.concatenate([first[name], second[name]]), alone[name], atol=1e-5)
    for rank in (first, second):
        np.testing.assert_allclose(rank["gradient"], alone["gradient"], atol=1e-5)


def test_all_ranks_stop_when_nobody_listens_any_more(tmp_path):
    """Everybody halts at step 1, and no other is taken: one exchange there, one back."""
    script = str(ROOT / "tests" / "halted_rank.py")
    ended(as_ranks([[script, str(tmp_path / f"{rank}.npz"), "all"] for rank in range(2)]))
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as found:
            assert set(found["steps"]) == {1}
            assert found["exchanges"] == 2


def epochs_in(checkpoint):
    """How many epochs a checkpoint has behind it; 0 if there is none."""
    if not checkpoint.exists():
        return 0
    with safe_open(checkpoint, framework="pt") as file:
        return int(file.metadata()["epochs"])


def wait_for_epochs(process, checkpoint, epochs):
    until = time.monotonic() + 120
    while epochs_in(checkpoint) < epochs:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.02)


def test_a_rank_that_is_killed_ends_the_others_and_the_training_goes_on(club, tmp_path):
    """One rank and then the other: what goes on is, to the bit, what was not disturbed."""
    common = ["--graph", club, "--set", "max_epochs=500", "--set", "patience=500", "--runs", "2"]
    together(2, [*common, "--out", tmp_path / "undisturbed"])
    out = tmp_path / "disturbed"
    kept = checkpoint_of(out)
    for victim in (1, 0):
        processes = start(2, [*common, "--out", out])
        wait_for_epochs(processes[1 - victim], kept, max(6, epochs_in(kept) + 1))  # the halting unit has learned
        processes[victim].send_signal(signal.SIGKILL)
        died = time.monotonic()
        found = ended(processes)
        assert time.monotonic() - died < 15
        status, _, told = found[1 - victim]
        assert status == 1
        (line,) = [line for line in told.splitlines() if line.startswith("apgcn:")]
        assert "one of them has ended" in line
        assert line.endswith("what was learned is kept: the same command goes on from there.")
        assert "Traceback" not in told
        assert not out.exists()
        assert kept.exists()
    found = together(2, [*common, "--out", out])
    assert "it goes on after" in found[0][2]
    assert not kept.exists()
    one, other = (load_model(tmp_path / name).fitted for name in ("undisturbed", "disturbed"))
    assert other.notes["epochs"] == one.notes["epochs"]
    for name, weight in one.weights.items():
        np.testing.assert_array_equal(other.weights[name].numpy(), weight.numpy())


def test_fewer_ranks_go_on_where_more_have_ended(tmp_path):
    """Without dropout they learn what one process does that was not disturbed; their folder was there, and empty."""
    common = ["cora", "--set", "max_epochs=60", "--set", "patience=60", *STILL]
    assert run(["train", *common, "--out", str(tmp_path / "undisturbed")]) == 0
    out = tmp_path / "disturbed"
    out.mkdir()
    processes = start(2, [*common, "--out", out])
    wait_for_epochs(processes[0], checkpoint_of(out), 1)
    for process in processes:
        process.kill()
    ended(processes)
    assert [file.name for file in out.iterdir()] == [checkpoint_of(out).name]
    found = together(1, [*common, "--out", out])
    assert "it goes on after" in found[0][2]
    assert sorted(os.listdir(out)) == sorted(os.listdir(tmp_path / "undisturbed"))
    np.testing.assert_allclose(history(out)[:, :2], history(tmp_path / "undisturbed")[:, :2], atol=1e-4)


def test_others_wait_while_one_rank_writes(club, tmp_path):
    """Longer than ranks may take to meet."""
    together(2, ["--graph", club, "--out", tmp_path / "m", "--set", "max_epochs=3"], code=SLOW)
    assert (tmp_path / "m" / "model.json").exists()


def test_a_pack_that_some_runs_have_left_goes_on(cora, tmp_path):
    """In one process: each run leaves at its own epoch, before the checkpoint or after it."""
    graph, runs = DeviceGraph.of(cora), benchmark_runs(cora, 4)
    given = graph, runs, APGCNConfig(hidden_channels=8), TrainingConfig(max_epochs=60, patience=4)
    whole = BatchedTrainer(*given)
    while whole.going:
        whole.epoch()
        if len(whole.members) < 4 and not (tmp_path / "c").exists():
            write_checkpoint(tmp_path / "c", whole, {"a": 1})
    assert len(set(whole.lasted[1].tolist())) > 1
    state, epochs = read_checkpoint(tmp_path / "c", {"a": 1})
    content = bytearray((tmp_path / "c").read_bytes())
    content[-5] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"must be a checkpoint, but cannot be read \(it is damaged\); remove it"):
        read_checkpoint(tmp_path / "damaged", {"a": 1})
    assert 0 < len(state["members"]) < 4
    other = BatchedTrainer(*given)
    restore(other, state, epochs)
    while other.going:
        other.epoch()
    for one, same in zip(whole.results(), other.results(), strict=True):
        np.testing.assert_array_equal(same.logits, one.logits)
        np.testing.assert_array_equal(same.history.stopping_loss, one.history.stopping_loss)
        assert (same.best_epoch, same.epochs) == (one.best_epoch, one.epochs)


def test_a_checkpoint_of_another_training_is_not_taken(club, tmp_path):
    out = tmp_path / "m"
    processes = start(2, ["--graph", club, "--out", out, "--set", "max_epochs=5000", "--set", "patience=5000"])
    until = time.monotonic() + 120
    while not checkpoint_of(out).exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    for process in processes:
        process.kill()
    ended(processes)
    for options, sentence in (
        (["--penalty", "0.3"], "must be of the same training, but the model differs; remove it"),
        (["--set", "max_epochs=5000", "--set", "patience=5000", "--test-size", "0.3"], "but the split differs"),
    ):
        found = ended(start(2, ["--graph", club, "--out", out, *options]))
        assert [status for status, _, _ in found] == [2, 2]
        assert sentence in found[0][2]
        assert found[1][2] == ""
    checkpoint_of(out).write_bytes(b"no checkpoint")
    with pytest.raises(BrokenFile, match="must be a checkpoint"):
        read_checkpoint(checkpoint_of(out), {})


def test_the_folder_is_that_of_one_process_and_predictions_are_written_by_all(club, tmp_path):
    found = together(2, ["--graph", club, "--out", tmp_path / "m", "--set", "max_epochs=60", "--json"])
    told = json.loads(found[0][1])
    assert told["nodes"] == 400
    assert len(told["traffic"]) == 2
    assert "rank 1:" in found[0][2]
    assert found[1][1:] == ("", "")
    assert run(["predict", str(tmp_path / "m"), "--out", str(tmp_path / "p.csv")]) == 0
    with (tmp_path / "p.csv").open(newline="") as file:
        expected = {row["id"]: row for row in csv.DictReader(file)}
    parts = sorted((tmp_path / "m" / "predictions").iterdir())
    assert [part.name for part in parts] == ["part-00000-of-00002.csv", "part-00001-of-00002.csv"]
    rows = [row for part in parts for row in csv.DictReader(part.read_text().splitlines())]
    assert len(rows) == len(expected) == 400
    for row in rows:
        other = expected[row["id"]]
        assert (row["prediction"], row["steps"], row["label"]) == (other["prediction"], other["steps"], other["label"])
        assert float(row["probability"]) == pytest.approx(float(other["probability"]), abs=1e-4)


def test_a_rank_without_training_nodes_serves_the_others(club, tmp_path):
    """All labels are those of the first half, and rows are divided into blocks."""
    with np.load(club) as members:
        arrays = dict(members)
    arrays["labels"] = np.where(np.arange(400) < 150, arrays["labels"], -1)
    np.savez(tmp_path / "half.npz", **arrays)
    given = ["--graph", tmp_path / "half.npz", "--set", "max_epochs=30", "--partition", "blocks"]
    found = together(2, [*given, *STILL, "--out", tmp_path / "m"])
    assert "none of them trains, it serves the others" in found[0][2]
    together(1, [*given, *STILL, "--out", tmp_path / "one"])
    one, other = (load_model(tmp_path / name).fitted for name in ("one", "m"))
    for name, weight in one.weights.items():
        np.testing.assert_allclose(other.weights[name].numpy(), weight.numpy(), atol=1e-4)


# --- mistakes ---


def test_ranks_that_see_different_files_say_so(club, tmp_path):
    other = synthetic_graph(401, edges=1500, features=12, classes=3)
    write_npz(tmp_path / "other.npz", other)
    arguments = ["--graph", club, "--out", tmp_path / "m"]
    found = ended(start(2, arguments, arguments_of={1: ["--graph", tmp_path / "other.npz", "--out", tmp_path / "m"]}))
    assert [status for status, _, _ in found] == [2, 2]
    assert "all ranks must see the same graph, but that of rank 1 (401 nodes) differs" in found[0][2]
    assert found[1][2] == ""
    assert not (tmp_path / "m").exists()


def test_ranks_that_were_told_different_things_say_so(club, tmp_path):
    arguments = ["--graph", club, "--out", tmp_path / "m"]
    found = ended(start(2, arguments, arguments_of={1: [*arguments, "--set", "hidden_channels=32"]}))
    assert [status for status, _, _ in found] == [2, 2]
    assert "all ranks must train the same, but of rank 1 the model differs" in found[0][2]


def test_ranks_that_train_different_graphs_say_so(club, tmp_path):
    arguments = ["--graph", club, "--out", tmp_path / "m"]
    found = ended(start(2, arguments, arguments_of={1: ["cora", "--out", tmp_path / "m"]}))
    assert [status for status, _, _ in found] == [2, 2]
    assert "all ranks must be told the same, but rank 1 trains cora" in found[0][2]
    assert found[1][2] == ""


@pytest.mark.parametrize(("name", "value"), [("RANK", "2"), ("RANK", "abc"), ("WORLD_SIZE", "0"), ("MASTER_PORT", "x")])
def test_an_environment_that_no_rank_has_is_said(name, value, tmp_path, capsys, monkeypatch):
    for known, usual in (("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29555")):
        monkeypatch.setenv(known, value if known == name else usual)
    assert run(["train", "cora", "--distributed", "--out", str(tmp_path / "m")]) == 2
    assert f"the environment says RANK={'0' if name != 'RANK' else value}" in capsys.readouterr().err


def test_ranks_of_whom_one_has_no_numba_say_so(club, tmp_path):
    """They would exchange different things."""
    found = ended(start(2, ["--graph", club, "--out", tmp_path / "m"], code_of={1: PLAIN}))
    assert [status for status, _, _ in found] == [2, 2]
    assert "of rank 1 the presence of numba differs (True here, False there)" in found[0][2]


def test_blocks_have_nodes_wherever_a_large_one_lies():
    for place in (0, 50, 99):
        work = np.ones(100, int)
        work[place] = 10_000
        owner = in_blocks(np.concatenate([[0], work.cumsum()]), 4)
        assert set(owner) == {0, 1, 2, 3}
        assert (np.diff(owner) >= 0).all()


def test_more_ranks_than_nodes_are_refused():
    owner = in_blocks(np.array([0, 9, 10, 11]), 4)
    with pytest.raises(InvalidInput, match="every rank must have rows, but the 3 nodes cannot be divided among 4"):
        check_owners(owner, 4)
    check_owners(in_blocks(np.array([0, 9, 10, 11]), 2), 2)


def test_an_archive_with_one_direction_must_be_called_directed(club, tmp_path):
    graph = read_npz(club)
    write_npz(tmp_path / "one.npz", replace(graph, adjacency=sparse.triu(graph.adjacency)))
    owner = np.zeros(400, np.int16)
    with pytest.raises(InvalidInput, match="must hold every edge in both directions"):
        Archive(tmp_path / "one.npz").part(owner, 0)
    heard = Archive(tmp_path / "one.npz", directed=True).part(owner, 0).heard
    expected = sparse.triu(graph.adjacency).T + sparse.eye(400)
    assert abs(heard - expected).max() == 0


def test_a_file_that_one_rank_lacks_is_said(club, tmp_path):
    arguments = ["--graph", club, "--out", tmp_path / "m"]
    found = ended(start(2, arguments, arguments_of={1: ["--graph", tmp_path / "none.npz", "--out", tmp_path / "m"]}))
    assert [status for status, _, _ in found] == [2, 2]
    assert "rank 1: " in found[0][2]
    assert "cannot be read" in found[0][2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["cora", "--distributed", "--out", "OUT"], "must be started once for every rank: torchrun"),
        (["cora", "--distributed"], "--distributed must come with --out"),
        (["cora", "--distributed", "--out", "OUT", "--runs", "3"], "--distributed trains one model"),
        (["cora", "--partition", "metis"], "--partition must come with --distributed"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(options, sentence, tmp_path, capsys, monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert run(["train", *[option.replace("OUT", str(tmp_path / "m")) for option in options]]) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model", "gat"], "--distributed must have a model that listens in steps, but GAT needs all rows"),
        (["--partition", "thirds"], "unknown partition 'thirds'; known: auto, metis, blocks"),
    ],
)
def test_what_is_wrong_is_said_by_one_rank(options, sentence, tmp_path):
    found = ended(start(2, ["cora", "--out", tmp_path / "m", *options]))
    assert [status for status, _, _ in found] == [2, 2]
    assert sentence in found[0][2]
    assert found[1][2] == ""
    assert not (tmp_path / "m").exists()


def test_what_all_ranks_were_told_wrong_is_said_once(tmp_path):
    found = ended(start(2, ["cora", "--out", tmp_path / "m", "--partitions", "metis"]))
    assert [status for status, _, _ in found] == [2, 2]
    assert "No such option: --partitions" in found[0][2]
    assert found[1][2] == ""
    found = ended(start(2, ["cora", "--out", tmp_path / "m", "--set", "hiden=3"]))
    assert [status for status, _, _ in found] == [2, 2]
    assert "did you mean 'hidden'?" in found[0][2]
    assert found[1][2] == ""


def test_torchrun_without_the_option_is_a_mistake(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank, told in (("0", "torchrun has started 2 of us, which must come with --distributed"), ("1", "")):
        monkeypatch.setenv("LOCAL_RANK", rank)
        assert run(["train", "cora", "--out", str(tmp_path / "m")]) == 2
        assert told in (said := capsys.readouterr().err)
        assert bool(said) == bool(told)


def test_torchrun_starts_it_and_starts_it_again(tmp_path):
    """A rank that is killed: with --max-restarts the training goes on by itself, and ends as if nothing had been."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    given = ["-m", "apgcn", "train", "cora", "--distributed", "--set", "max_epochs=300", "--set", "patience=300"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*torchrun, *given, "--out", str(tmp_path / "m")], check=True, timeout=240, env=environment)
    command = [*torchrun, "--max-restarts", "2", *given, "--out", str(tmp_path / "again")]
    process = subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for_epochs(process, checkpoint_of(tmp_path / "again"), 1)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    _, told = process.communicate(timeout=240)
    assert process.returncode == 0, told
    assert "it goes on after" in told
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("m", "again")]
    assert [summary["ranks"] for summary in summaries] == [2, 2]
    with np.load(tmp_path / "m" / "nodes.npz") as one, np.load(tmp_path / "again" / "nodes.npz") as other:
        np.testing.assert_array_equal(other["logits"], one["logits"])
