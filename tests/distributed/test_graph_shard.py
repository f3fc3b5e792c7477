"""Partitions and shards of a graph, in memory and from an archive, in one process."""

import json
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from helpers import ROOT
from scipy import sparse

from apgcn.data.npz import read_npz, write_npz
from apgcn.data.synthetic import synthetic_graph
from apgcn.distributed.graph_shard import shard_graph
from apgcn.distributed.partition import check_partition, partition_blocks, partition_metis, resolve_method
from apgcn.distributed.streaming_npz import NpzSource
from apgcn.errors import BrokenFile, InvalidInput, MissingFile, MissingPackage
from apgcn.inference.bundle import fingerprint


@pytest.mark.parametrize("method", ["metis", "blocks"])
def test_every_node_is_in_one_part_and_work_is_balanced(method):
    graph = synthetic_graph(2000, edges=12000, classes=4)
    adjacency = graph.adjacency
    partition = partition_metis(adjacency, 3) if method == "metis" else partition_blocks(adjacency.indptr, 3)
    assert partition.shape == (2000,)
    work = np.bincount(partition, weights=1 + np.diff(adjacency.indptr))
    assert work.max() < 1.25 * work.min()
    if method == "metis":
        sources = np.repeat(np.arange(2000), np.diff(adjacency.indptr))
        cut = (partition[sources] != partition[adjacency.indices]).mean()
        blocks = partition_blocks(adjacency.indptr, 3)
        assert cut < 0.6 * (blocks[sources] != blocks[adjacency.indices]).mean()


def test_metis_accepts_directed_edges_and_self_loops():
    edges = sparse.csr_matrix(([1.0, 1, 1, 1], ([0, 1, 2, 3], [1, 1, 3, 3])), shape=(4, 4))
    partition = partition_metis(edges, 2)
    assert partition[0] == partition[1] != partition[2] == partition[3]


def test_blocks_are_not_empty_wherever_a_hub_is():
    for hub in (0, 50, 99):
        degrees = np.ones(100, int)
        degrees[hub] = 10_000
        partition = partition_blocks(np.concatenate([[0], degrees.cumsum()]), 4)
        assert set(partition) == {0, 1, 2, 3}
        assert (np.diff(partition) >= 0).all()


def test_more_ranks_than_nodes_are_refused():
    partition = partition_blocks(np.array([0, 9, 10, 11]), 4)
    with pytest.raises(InvalidInput, match="every rank must have rows, but the 3 nodes cannot be divided among 4"):
        check_partition(partition, 4)
    check_partition(partition_blocks(np.array([0, 9, 10, 11]), 2), 2)


def test_without_pymetis_there_are_blocks(monkeypatch):
    assert resolve_method("auto") == "metis"
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert resolve_method("auto") == "blocks"
    with pytest.raises(MissingPackage, match=r'pip install "apgcn\[metis\]", or use --partition blocks'):
        resolve_method("metis")


def test_shards_together_are_the_graph():
    """Directed, weighted, with self-loops: the rows of all shards are those of the transposed adjacency matrix."""
    random = np.random.default_rng(0)
    edges = sparse.random(50, 50, density=0.1, random_state=random, format="csr", dtype=np.float32)
    graph = replace(synthetic_graph(50, edges=100, classes=2), adjacency=edges)
    partition = random.integers(3, size=50).astype(np.int16)
    combined = np.zeros((50, 50), np.float32)
    for rank in range(3):
        shard = shard_graph(graph, partition, rank)
        assert (partition[shard.nodes] == rank).all()
        assert (np.diff(partition[shard.halo_nodes]) >= 0).all()
        columns = np.concatenate([shard.nodes, shard.halo_nodes])
        combined[np.ix_(shard.nodes, columns)] += shard.adjacency.toarray()
        np.testing.assert_array_equal(shard.features, graph.features[shard.nodes])
        assert shard.local_rows(np.array([0, 20, 49])).tolist() == [
            int(np.flatnonzero(shard.nodes == node)[0]) for node in (0, 20, 49) if partition[node] == rank
        ]
    expected = edges.toarray().T
    np.fill_diagonal(expected, 1)
    np.testing.assert_array_equal(combined, expected)


@pytest.mark.parametrize("dense", [True, False])
def test_an_archive_read_in_chunks_gives_the_same_shards(dense, tmp_path, monkeypatch):
    monkeypatch.setattr("apgcn.distributed.streaming_npz.CHUNK_SIZE", 97)
    graph = synthetic_graph(300, edges=900, features=7, classes=3)
    if not dense:
        graph = replace(graph, features=sparse.csr_matrix(np.maximum(graph.features, 0)))
    graph = replace(graph, node_names=tuple(f"n{number}" for number in range(300)))
    write_npz(tmp_path / "g.npz", graph)
    source = NpzSource(tmp_path / "g.npz")
    assert (source.num_nodes, source.num_features, source.class_names) == (300, 7, graph.class_names)
    assert source.fingerprint() == fingerprint(graph)
    for method in ("metis", "blocks"):
        partition = source.partition(3, method)
        for rank in range(3):
            shard, expected = source.shard(partition, rank), shard_graph(graph, partition, rank)
            np.testing.assert_array_equal(shard.nodes, expected.nodes)
            np.testing.assert_array_equal(shard.halo_nodes, expected.halo_nodes)
            assert (shard.adjacency != expected.adjacency).nnz == 0
            assert np.abs(shard.features - expected.features).max() == 0
            assert source.node_ids(shard.nodes) == [f"n{number}" for number in shard.nodes]


def test_a_damaged_archive_is_reported(tmp_path, archive):
    with pytest.raises(MissingFile, match="cannot be read"):
        NpzSource(tmp_path / "nowhere.npz")
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(BrokenFile, match="not an archive that `write_npz` wrote"):
        NpzSource(tmp_path / "text.npz")
    with np.load(archive) as members:
        arrays = dict(members)
    new_names = {name: arrays.pop(name) for name in list(arrays) if "_names_" in name}
    graph = read_npz(archive)  # its names as apgcn 0.2 stored them
    arrays |= {"class_names": np.array(graph.class_names), "node_names": np.array(graph.node_ids)}
    for name, values, sentence in (
        ("adj_indices", arrays["adj_indices"][::-1].copy(), "rows must be sorted"),
        ("adj_data", -arrays["adj_data"], "edge weights must be > 0"),
        ("attr_dense", np.full_like(arrays["attr_dense"], np.nan), "features must be finite"),
        ("adj_data", arrays["adj_data"].astype(np.float64), "must hold float32"),
        ("adj_indices", arrays["adj_indices"] + 400, "indices must be from 0 to 399"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: values})
        source = NpzSource(tmp_path / "bad.npz")
        with pytest.raises(BrokenFile, match=sentence):
            source.shard(np.zeros(400, np.int16), 0)
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
        ("node_names", arrays["node_names"].astype(np.bytes_), "node_names must be strings"),
        ("class_names", np.array("a"), "class_names must be strings"),
        ("adj_indptr", arrays["adj_indptr"].reshape(1, -1), "row pointers must rise from 0"),
        ("attr_dense", arrays["attr_dense"].ravel(), "not an archive that `write_npz` wrote"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: values})
        with pytest.raises(BrokenFile, match=sentence):
            NpzSource(tmp_path / "bad.npz")
    offsets = np.arange(401) * 2
    node_names = {"node_names_offsets": offsets, "node_names_bytes": np.full(800, 97, np.uint8)}
    for name, values, sentence in (
        ("node_names_offsets", offsets[1:], "node_names_offsets must have shape"),
        ("node_names_offsets", offsets[::-1].copy(), "offsets of names must be integers from 0"),
        ("node_names_offsets", np.r_[0, 800, offsets[2:]], "offsets of names must rise"),
        ("node_names_offsets", offsets * 2, "the file ends too early"),
        ("node_names_bytes", np.full(800, 255, np.uint8), "can't decode byte 0xff"),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, **new_names, **node_names, name: values})
        with pytest.raises(BrokenFile, match=sentence):
            NpzSource(tmp_path / "bad.npz").node_ids(np.arange(400))
    content = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as file:
        offset = file.getinfo("adj_indices.npy").header_offset + 300
    content[offset : offset + 40] = bytes(40)
    (tmp_path / "damaged.npz").write_bytes(content)
    with pytest.raises(BrokenFile, match=r"not an archive that `write_npz` wrote \(error: Error -3"):
        NpzSource(tmp_path / "damaged.npz").shard(np.zeros(400, np.int16), 0)


def test_an_archive_with_arrays_of_strings_is_read_as_before(archive, tmp_path):
    """As apgcn 0.2 wrote them."""
    with np.load(archive) as members:
        arrays = {name: array for name, array in members.items() if "_names_" not in name}
    names = [f"n{number}" for number in range(400)]
    np.savez(tmp_path / "old.npz", **arrays, class_names=np.array(["a", "b", "c"]), node_names=np.array(names))
    source = NpzSource(tmp_path / "old.npz")
    assert source.class_names == ("a", "b", "c")
    assert source.node_ids(np.array([0, 7, 399])) == ["n0", "n7", "n399"]
    assert source.fingerprint() == fingerprint(read_npz(tmp_path / "old.npz"))


def test_an_archive_with_one_direction_of_edges_must_be_declared_directed(archive, tmp_path):
    graph = read_npz(archive)
    write_npz(tmp_path / "one.npz", replace(graph, adjacency=sparse.triu(graph.adjacency)))
    partition = np.zeros(400, np.int16)
    with pytest.raises(InvalidInput, match="must hold every edge in both directions"):
        NpzSource(tmp_path / "one.npz").shard(partition, 0)
    adjacency = NpzSource(tmp_path / "one.npz", directed=True).shard(partition, 0).adjacency
    expected = sparse.triu(graph.adjacency).T + sparse.eye(400)
    assert abs(adjacency - expected).max() == 0


def test_recorded_memory_of_two_ranks_is_as_documented():
    runs = json.loads((ROOT / "benchmarks" / "results" / "distributed.json").read_text())["runs"]
    peaks = [(run["ranks"], max(rank["peak_memory"] for rank in run["traffic"])) for run in runs]
    (one_rank,) = [peak for num_ranks, peak in peaks if num_ranks == 1]
    two_ranks = [peak for num_ranks, peak in peaks if num_ranks == 2]
    assert len(two_ranks) >= 2
    assert max(two_ranks) <= 0.65 * one_rank
