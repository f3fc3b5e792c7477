"""Ranks that share a graph train what one rank trains, and say what goes wrong."""

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from scipy import sparse

from apgcn.cli import run
from apgcn.cli.distributed import checkpoint_of
from apgcn.datasets.synthetic import synthetic_graph
from apgcn.distributed import owners
from apgcn.distributed.checkpoint import read_checkpoint, restore, write_checkpoint
from apgcn.distributed.owners import by_metis, check_owners, in_blocks, way_of
from apgcn.distributed.part import part_of
from apgcn.distributed.reading import Archive
from apgcn.errors import BrokenFile, InvalidInput, MissingFile, MissingPackage
from apgcn.experiments.store import Store
from apgcn.io.npz import read_npz, write_npz
from apgcn.models.apgcn import APGCNSettings
from apgcn.own.saved import fingerprint, load_model
from apgcn.tensors import GraphTensors
from apgcn.training.loop import Pack
from apgcn.training.runs import benchmark_runs
from apgcn.training.settings import TrainingSettings

STILL = ["--set", "dropout=0", "--set", "edge_dropout=0"]
ROOT = Path(__file__).parents[1]


PLAIN = "import sys; sys.modules['numba'] = None; from apgcn.cli import main; main()"


def start(ranks, arguments, *, plain=False, arguments_of=None):
    """Processes as `torchrun` would start them; `arguments_of` gives a rank other ones, plain ones have no numba."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    processes = []
    for rank in range(ranks):
        given = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **{name: str(value) for name, value in given.items()}}
        mine = (arguments_of or {}).get(rank, arguments)
        command = [sys.executable, *(["-c", PLAIN] if plain else ["-m", "apgcn"])]
        processes.append(
            subprocess.Popen(
                [*command, "train", *map(str, mine), "--distributed"],
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
    monkeypatch.setattr("apgcn.distributed.reading.PIECE", 97)
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
        ("adj_indices", arrays["adj_indices"][:-5], "ends too early"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: values})
        archive = Archive(tmp_path / "bad.npz")
        with pytest.raises(BrokenFile, match=sentence):
            archive.part(np.zeros(400, np.int16), 0)
    for name, values, sentence in (
        ("labels", arrays["labels"] + 3, "labels must be from -1 to 2"),
        ("labels", arrays["labels"][1:], "labels must be an int64 for each of 400 nodes"),
        ("adj_indptr", arrays["adj_indptr"][::-1].copy(), "row pointers must rise from 0"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: values})
        with pytest.raises(BrokenFile, match=sentence):
            Archive(tmp_path / "bad.npz")


def test_without_pymetis_there_are_blocks(monkeypatch):
    assert way_of("auto") == "metis"
    monkeypatch.setattr(owners, "find_spec", lambda name: None)
    assert way_of("auto") == "blocks"
    with pytest.raises(MissingPackage, match=r'pip install "apgcn\[metis\]", or say --partition blocks'):
        way_of("metis")


# --- training ---


FROZEN = ["--set", "freeze_halted=true", "--penalty", "1", "--set", "halting_every=1", "--set", "learning_rate=0.03"]


@pytest.mark.parametrize(
    ("ranks", "options", "plain"),
    [
        (2, [], False),
        (2, [], True),
        (2, [*FROZEN, "--partition", "blocks"], False),
        (2, FROZEN, True),
        (3, [*FROZEN, "--model", "ap-appnp", "--partition", "blocks"], False),
        (2, ["--model", "ap-appnp"], False),
        (2, ["--model", "ap-arma"], False),
        (2, ["--model", "gcn"], False),
        (2, ["--model", "appnp"], False),
    ],
)
def test_ranks_learn_what_one_process_learns(ranks, options, plain, benchmark_graph, tmp_path):
    """Losses of fifty epochs without dropout, from the same key and seed."""
    benchmark_graph("cora_ml")
    common = ["cora_ml", "--set", "max_epochs=50", "--set", "patience=50", *STILL]
    alone = [option for option in options if option not in ("--partition", "blocks")]
    assert run(["train", *common, *alone, "--out", str(tmp_path / "alone")]) == 0
    together(ranks, [*common, *options, "--out", tmp_path / "together"], plain=plain)
    expected, found = history(tmp_path / "alone"), history(tmp_path / "together")
    assert found.shape == (50, 4)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    if options[:2] == FROZEN[:2]:
        assert expected[:, 3].min() < 8, "nodes must halt early, or freezing shows little"
    with np.load(tmp_path / "alone" / "nodes.npz") as one, np.load(tmp_path / "together" / "nodes.npz") as other:
        np.testing.assert_allclose(other["logits"], one["logits"], atol=1e-3)
        assert (other["steps"] != one["steps"]).mean() < 0.01


def test_one_rank_and_two_stop_where_others_do(benchmark_graph, tmp_path):
    """With dropout, which two ranks draw differently, accuracy lies among that of the recorded runs."""
    benchmark_graph("cora_ml")
    records = [
        record.test_accuracy
        for record in Store(ROOT / "results" / "h200").records.values()
        if (record.dataset, record.model, record.settings.get("freeze_halted", False)) == ("cora_ml", "apgcn", False)
        and record.per_class == 20
        and record.settings["penalty"] == 0.005
    ]
    assert len(records) >= 100
    together(2, ["cora_ml", "--out", tmp_path / "m"])
    summary = json.loads((tmp_path / "m" / "summary.json").read_text())
    assert min(records) <= summary["accuracy_mean"] <= max(records)
    assert summary["ranks"] == 2
    assert all(one["bytes"] > 0 and 0 < one["share_of_time"] <= 1 for one in summary["traffic"])


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
        assert "the same command goes on from" in line
        assert "Traceback" not in told
        assert not out.exists()
        assert kept.exists()
    together(2, [*common, "--out", out])
    assert not kept.exists()
    one, other = (load_model(tmp_path / name).fitted for name in ("undisturbed", "disturbed"))
    assert other.notes["epochs"] == one.notes["epochs"]
    for name, weight in one.weights.items():
        np.testing.assert_array_equal(other.weights[name].numpy(), weight.numpy())


def test_a_pack_that_some_runs_have_left_goes_on(cora, tmp_path):
    """In one process: each run leaves at its own epoch, before the checkpoint or after it."""
    graph, runs = GraphTensors.of(cora), benchmark_runs(cora, 4)
    given = graph, runs, APGCNSettings(hidden=8), TrainingSettings(max_epochs=60, patience=4)
    whole = Pack(*given)
    while whole.going:
        whole.epoch()
        if len(whole.members) < 4 and not (tmp_path / "c").exists():
            write_checkpoint(tmp_path / "c", whole, {"a": 1})
    assert len(set(whole.lasted[1].tolist())) > 1
    state, epochs = read_checkpoint(tmp_path / "c", {"a": 1})
    assert 0 < len(state["members"]) < 4
    other = Pack(*given)
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
        (["--set", "max_epochs=5000", "--set", "patience=5000", "--test-share", "0.3"], "but the split differs"),
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
    found = ended(start(2, arguments, arguments_of={1: [*arguments, "--set", "hidden=32"]}))
    assert [status for status, _, _ in found] == [2, 2]
    assert "all ranks must train the same, but of rank 1 the model differs" in found[0][2]


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


def test_torchrun_starts_it(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [*torchrun, "-m", "apgcn", "train", "cora", "--distributed", "--set", "max_epochs=3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, "--out", str(tmp_path / "m")], check=True, timeout=240, env=environment)
    assert json.loads((tmp_path / "m" / "summary.json").read_text())["ranks"] == 2
