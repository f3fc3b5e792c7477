"""The heterophilous graphs: counts and fractions of the publication, splits by number, and what is refused."""

import os
from pathlib import Path

import numpy as np
import pytest

from apgcn import benchmark_runs, clean, load
from apgcn.data import DATASETS, HETEROPHILOUS_GRAPHS, load_prepared, published_splits
from apgcn.data.heterophilous import read_heterophilous, read_splits
from apgcn.data.homophily import edge_homophily
from apgcn.data.transforms import subgraph
from apgcn.errors import BrokenFile, InvalidInput

# Table 1 of Platonov et al. and the README of their repository; actor: Geom-GCN's graph without its duplicate edges
PUBLISHED = {  # nodes, edges, features, classes, fractions of the training, stopping and test nodes
    "minesweeper": (10_000, 39_402, 7, 2, (0.5, 0.25, 0.25)),
    "tolokers": (11_758, 519_000, 10, 2, (0.5, 0.25, 0.25)),
    "chameleon_filtered": (890, 8_854, 2_325, 5, (0.48, 0.32, 0.2)),
    "squirrel_filtered": (2_223, 46_998, 2_089, 5, (0.48, 0.32, 0.2)),
    "actor": (7_600, 26_659, 932, 5, (0.48, 0.32, 0.2)),
}
EDGE_HOMOPHILY = {"minesweeper": 0.68, "tolokers": 0.59}  # published


def archive(name: str):
    """The arrays of the published file."""
    return np.load(Path(os.environ["APGCN_DATA"]) / f"{name}.npz")


def write_small_archive(path: Path, **changes) -> Path:
    """A graph of four nodes with an edge in both directions and a self-loop; split 0 trains on node 0."""
    masks = {
        f"{kind}_masks": np.roll(np.eye(10, 4, dtype=bool), column, axis=1)
        for column, kind in enumerate(("train", "val", "test"))
    }
    arrays = {
        "node_features": np.arange(8, dtype=np.float32).reshape(4, 2),
        "node_labels": np.array([0, 1, 1, 0]),
        "edges": np.array([[0, 1], [1, 0], [2, 2], [3, 1]]),
        **masks,
    }
    np.savez(path, **{name: value for name, value in (arrays | changes).items() if value is not None})
    return path


def test_the_registry_has_the_published_counts():
    assert list(PUBLISHED) == list(HETEROPHILOUS_GRAPHS)
    for name, (nodes, edges, features, classes, _) in PUBLISHED.items():
        dataset = DATASETS[name]
        assert (dataset.nodes, dataset.edges, dataset.features, dataset.classes) == (nodes, edges, features, classes)
        assert dataset.metric == ("roc_auc" if classes == 2 else "accuracy")
        assert dataset.license == "MIT"


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_graph_has_the_published_counts_and_keeps_every_node_and_feature(benchmark_graph, name):
    graph = benchmark_graph(name)
    nodes, edges, features, classes, _ = PUBLISHED[name]
    assert (graph.num_nodes, graph.num_directed_edges) == (nodes, 2 * edges)
    assert (graph.num_features, graph.num_classes) == (features, classes)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert not graph.adjacency.diagonal().any()
    assert set(graph.adjacency.data) == {1.0}
    stored = archive(name)
    rows = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    np.testing.assert_array_equal(rows, stored["node_features"])
    np.testing.assert_array_equal(graph.labels, stored["node_labels"])


@pytest.mark.parametrize("name", EDGE_HOMOPHILY)
def test_edge_homophily_is_the_published_one(benchmark_graph, name):
    assert edge_homophily(benchmark_graph(name)) == pytest.approx(EDGE_HOMOPHILY[name], abs=0.005)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_ten_splits_use_every_node_once_in_the_published_fractions(benchmark_graph, name):
    graph, splits = benchmark_graph(name), published_splits(name)
    stored = archive(name)
    assert [split.seed for split in splits] == list(range(10))
    for number, split in enumerate(splits):
        sets = split.train, split.stopping, split.test
        np.testing.assert_array_equal(np.sort(np.concatenate(sets)), np.arange(graph.num_nodes))
        assert len(split.validation) == 0
        np.testing.assert_allclose([len(nodes) / graph.num_nodes for nodes in sets], PUBLISHED[name][4], atol=0.035)
        for nodes, mask in zip(sets, ("train_masks", "val_masks", "test_masks"), strict=True):
            assert stored[mask][number][nodes].all()
    mean_fractions = np.mean([[len(split.train), len(split.stopping), len(split.test)] for split in splits], axis=0)
    np.testing.assert_allclose(mean_fractions / graph.num_nodes, PUBLISHED[name][4], atol=0.007)


def test_run_r_uses_split_r_mod_10_and_initialisation_r_div_10(benchmark_graph):
    runs = benchmark_runs(benchmark_graph("chameleon_filtered"), 21)
    assert [(run.split.seed, run.init) for run in runs] == [(number % 10, number // 10) for number in range(21)]
    fewer = subgraph(benchmark_graph("chameleon_filtered"), np.arange(800))
    with pytest.raises(InvalidInput, match=r"its 890 nodes as loaded, got 800; leave out clean\(graph\)"):
        benchmark_runs(fewer, 1)
    with pytest.raises(InvalidInput, match="seed set of chameleon_filtered must be published, got validation"):
        benchmark_runs(benchmark_graph("chameleon_filtered"), 1, validation=True)


def test_the_preprocessing_of_the_paper_is_for_its_graphs_only(benchmark_graph, cora):
    graph = benchmark_graph("chameleon_filtered")
    assert graph.num_nodes == load("chameleon_filtered").num_nodes
    assert load_prepared("cora").num_nodes == cora.num_nodes == clean(load("cora")).num_nodes


def test_a_small_archive_worked_by_hand(tmp_path):
    path = write_small_archive(tmp_path / "g.npz")
    graph = read_heterophilous(path, name="g")
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(graph.features, np.arange(8).reshape(4, 2))
    splits = read_splits(path)
    assert (splits[1].train.tolist(), splits[1].stopping.tolist(), splits[1].test.tolist()) == ([1], [2], [3])


@pytest.mark.parametrize("member", ["node_features", "edges", "train_masks"])
def test_an_archive_without_one_of_its_arrays_is_refused(tmp_path, member):
    path = write_small_archive(tmp_path / "g.npz", **{member: None})
    with pytest.raises(BrokenFile, match=member):
        (read_splits if member == "train_masks" else lambda path: read_heterophilous(path, name="g"))(path)


def test_splits_of_a_graph_without_published_ones_are_refused():
    with pytest.raises(InvalidInput, match="cora is published without splits; draw them with split_for_test"):
        published_splits("cora")
