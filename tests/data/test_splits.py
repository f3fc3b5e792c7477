"""Splits: the published indices, sizes, and validation of arguments."""

import hashlib
import json

import numpy as np
import pytest
from helpers import FIXTURES

from apgcn import TEST_SEEDS, VALIDATION_SEEDS, Split, split_for_test, split_for_validation
from apgcn.data import DATASETS
from apgcn.errors import InvalidInput

PUBLISHED = json.loads((FIXTURES / "splits.json").read_text())
DATASET_NAME = {dataset.file_name.removesuffix(".npz"): dataset.name for dataset in DATASETS.values()}


@pytest.mark.parametrize("file", PUBLISHED)
def test_the_twenty_published_splits_are_reproduced_node_by_node(benchmark_graph, file):
    graph = benchmark_graph(DATASET_NAME[file])
    hashes = []
    for seed in TEST_SEEDS:
        split = split_for_test(graph.labels, seed, visible=PUBLISHED[file]["visible"])
        nodes = np.concatenate([split.train, split.stopping, split.test]).astype("<i8")
        hashes.append(hashlib.sha256(nodes.tobytes()).hexdigest())
    assert hashes == PUBLISHED[file]["sha256"]
    assert len(hashes) == 20


@pytest.mark.parametrize("draw", [split_for_test, split_for_validation])
def test_sets_are_disjoint_sorted_and_of_the_requested_sizes(cora, draw):
    split = draw(cora.labels, 7, visible=1000, train_per_class=10, stopping=300)
    sets = [split.train, split.stopping, split.validation, split.test]
    nodes_of_all_sets = np.concatenate(sets)
    assert len(np.unique(nodes_of_all_sets)) == len(nodes_of_all_sets)
    assert all((np.diff(nodes) > 0).all() for nodes in sets)
    assert [len(nodes) for nodes in sets[:3]] == [70, 300, 630]
    assert (np.bincount(cora.labels[split.train]) == 10).all()


def test_test_splits_use_every_node_once(cora):
    split = split_for_test(cora.labels, TEST_SEEDS[0])
    nodes_of_all_sets = np.concatenate([split.train, split.stopping, split.validation, split.test])
    np.testing.assert_array_equal(np.sort(nodes_of_all_sets), np.arange(cora.num_nodes))


def test_a_validation_split_contains_no_test_node(cora):
    invisible = set(split_for_test(cora.labels, TEST_SEEDS[0]).test)
    for seed in VALIDATION_SEEDS:
        split = split_for_validation(cora.labels, seed)
        assert len(split.test) == 0
        assert invisible.isdisjoint(np.concatenate([split.train, split.stopping, split.validation]))


def test_test_and_validation_seeds_are_disjoint():
    assert len(set(TEST_SEEDS)) == len(set(VALIDATION_SEEDS)) == 20
    assert set(TEST_SEEDS).isdisjoint(VALIDATION_SEEDS)


def test_a_mask_is_converted_to_node_indices():
    split = Split(train=[True, False, True, False], stopping=np.array([3, 1]))
    assert split.train.tolist() == [0, 2]
    assert split.stopping.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (([0, 1], [1, 2]), "must not overlap, but node 1 is in two"),
        (([0, 0], [1]), "must not overlap, but node 0 is in two"),
        (([0.0, 1.0], [2]), "train must be node indices or a mask with one axis, got float64"),
        (([[0, 1]], [2]), r"got int64 of shape \(1, 2\)"),
        ((np.array([2**64 - 1], dtype=np.uint64), [0]), "train must hold node indices, got 18446744073709551615"),
        (([0], [-1]), "stopping must hold node indices >= 0, got -1"),
    ],
)
def test_invalid_sets_raise_a_message_that_names_them(sets, message):
    with pytest.raises(InvalidInput, match=message):
        Split(*sets)


@pytest.mark.parametrize(
    ("labels", "sizes", "message"),
    [
        ([0, 1] * 10, {"visible": 21}, "visible must be at most the number of nodes, 20, got 21"),
        (
            [0, 1] * 10,
            {"visible": 20, "train_per_class": 6, "stopping": 9},
            "too small for 21 training and stopping nodes",
        ),
        (
            [0] * 18 + [1] * 2,
            {"visible": 20, "train_per_class": 3},
            "class 1 has 2 visible nodes but train_per_class is 3",
        ),
        ([0, 1] * 10, {"visible": 20, "stopping": 0}, "stopping must be >= 1, got 0"),
        ([0, -1] * 10, {"visible": 20}, "need a label for every node"),
    ],
)
def test_impossible_sizes_raise_a_message_that_names_them(labels, sizes, message):
    with pytest.raises(InvalidInput, match=message):
        split_for_test(labels, 1, **{"train_per_class": 2, "stopping": 5, **sizes})
