"""The leaderboard: intervals against scipy, differences by hand, and what the sentences state."""

import numpy as np
import pytest
from scipy import sparse, stats

from apgcn import Graph, Split
from apgcn.data.homophily import edge_homophily
from apgcn.inference.leaderboard import (
    LeaderboardRow,
    describe_better_baseline,
    describe_graph_effect,
    majority_row,
    paired_difference,
    wilson_interval,
)


def row(model, correct, *, chosen=False):
    return LeaderboardRow(model, model, float(np.mean(correct)), (0.0, 1.0), None, 1.0, 0.0, chosen, np.array(correct))


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (5, 5), (8, 10), (431, 1000)])
def test_the_interval_is_wilsons(successes, count):
    expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson_interval(successes, count) == pytest.approx((expected.low, expected.high))


def test_a_difference_is_paired_over_the_nodes():
    first, second = row("a", [True] * 6 + [False] * 4), row("b", [True] * 3 + [False] * 7)
    mean, low, high = paired_difference(first, second)
    differences = np.array([0] * 3 + [1] * 3 + [0] * 4)
    half = 1.959964 * differences.std() / np.sqrt(10)
    assert (mean, low, high) == pytest.approx((0.3, 0.3 - half, 0.3 + half))


def test_the_majority_class_is_that_of_the_training_nodes():
    graph = Graph(
        sparse.csr_matrix((6, 6)), features=np.ones((6, 1)), labels=[0, 1, 1, 0, 0, 1], class_names=("x", "y")
    )
    split = Split(train=np.array([1, 2, 3]), stopping=np.array([0]), test=np.array([4, 5]))
    majority = majority_row(graph, split)
    assert (majority.title, majority.accuracy) == ("majority class (y)", 0.5)


@pytest.mark.parametrize(
    ("correct", "sentence"),
    [
        ([True] * 80 + [False] * 20, "The graph helps: +30.0 points over features alone"),
        ([True] * 20 + [False] * 80, "The graph misleads apgcn: -30.0 points"),
        ([True] * 51 + [False] * 49, "The graph makes no measurable difference: +1.0 points"),
    ],
)
def test_the_graph_helps_misleads_or_makes_no_difference(correct, sentence):
    rows = [row("apgcn", correct, chosen=True), row("mlp", [True] * 50 + [False] * 50)]
    assert describe_graph_effect(rows).startswith(sentence)


def test_features_alone_may_be_the_best():
    rows = [row("mlp", [True, False], chosen=True), row("lp", [False, False])]
    assert describe_graph_effect(rows) == "The graph does not help: features alone are chosen."
    assert describe_graph_effect(rows[:1]) is None


def test_label_propagation_is_named_only_if_it_is_better_beyond_chance():
    weak, strong = [True] * 30 + [False] * 70, [True] * 60 + [False] * 40
    assert "Label propagation is 30.0 points better than apgcn" in describe_better_baseline(
        [row("apgcn", weak, chosen=True), row("lp", strong)]
    )
    assert describe_better_baseline([row("apgcn", weak, chosen=True), row("lp", [True, *weak[1:]])]) is None
    assert describe_better_baseline([row("lp", strong, chosen=True), row("apgcn", weak)]) is None


def test_homophily_counts_edges_between_labelled_nodes():
    """Of the path 0 - 1 - 2 - 3 - 4 with classes x x y ? y: one of the two edges with two labels."""
    adjacency = sparse.diags([np.ones(4), np.ones(4)], [-1, 1], format="csr")
    graph = Graph(adjacency, features=np.ones((5, 1)), labels=[0, 0, 1, -1, 1], class_names=("x", "y"))
    assert edge_homophily(graph) == 0.5
    assert edge_homophily(Graph(sparse.csr_matrix((2, 2)), features=np.ones((2, 1)), labels=[0, 1])) is None
