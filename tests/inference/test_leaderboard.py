"""The leaderboard: intervals against scipy, differences by hand, and what the sentences state."""

import numpy as np
import pytest
from helpers.graphs import two_communities
from helpers.training import fit_with_leaderboard
from scipy import sparse, stats

from apgcn import Graph, Split
from apgcn.data.homophily import edge_homophily, random_homophily
from apgcn.inference.leaderboard import (
    LeaderboardRow,
    describe_better_baseline,
    describe_graph_effect,
    majority_row,
    paired_difference,
    wilson_interval,
)
from apgcn.inference.selection import FitOptions, split_for_fit


def row(model, correct, *, chosen=False):
    correct = np.asarray(correct, dtype=bool)
    return LeaderboardRow(
        model, model, float(correct.mean()), (0.0, 1.0), None, None, None, 1.0, 9, 0.0, chosen, correct
    )


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (5, 5), (8, 10), (431, 1000)])
def test_the_interval_is_wilsons(successes, count):
    expected = stats.binomtest(successes, count).proportion_ci(method="wilson")
    assert wilson_interval(successes, count) == pytest.approx((expected.low, expected.high))


def test_the_interval_contains_the_proportion_whatever_its_rounding():
    """Also 0 and 1, at which the bounds are equal to it and rounded."""
    for count in range(1, 500):
        for successes in {0, 1, count // 2, count}:
            low, high = wilson_interval(successes, count)
            assert low <= successes / count <= high


def test_a_difference_is_paired_over_the_nodes():
    first, second = row("a", [True] * 6 + [False] * 4), row("b", [True] * 3 + [False] * 7)
    mean, low, high = paired_difference(first, second)
    p, q = 4 / 12, 1 / 12  # three nodes better and none worse of ten, with a pseudo-count of one each
    half = 1.959964 * np.sqrt((p + q - (p - q) ** 2) / 12)
    assert (mean, low, high) == pytest.approx((0.3, p - q - half, p - q + half))


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
    assert describe_graph_effect(rows, num_edges=9).startswith(sentence)


def test_label_propagation_is_named_only_if_it_is_better_beyond_chance():
    weak, strong = [True] * 30 + [False] * 70, [True] * 60 + [False] * 40
    assert "Label propagation is 30.0 points better than apgcn" in describe_better_baseline(
        [row("apgcn", weak, chosen=True), row("lp", strong)]
    )
    assert describe_better_baseline([row("apgcn", weak, chosen=True), row("lp", [True, *weak[1:]])]) is None
    assert describe_better_baseline([row("lp", strong, chosen=True), row("apgcn", weak)]) is None


def test_homophily_counts_edges_between_labelled_nodes():
    """Of the path 0 - 1 - 2 - 3 - 4 with classes x, x, y, unknown, y: one of the two edges with two labels."""
    adjacency = sparse.diags([np.ones(4), np.ones(4)], [-1, 1], format="csr")
    graph = Graph(adjacency, features=np.ones((5, 1)), labels=[0, 0, 1, -1, 1], class_names=("x", "y"))
    assert edge_homophily(graph) == 0.5
    random = np.random.default_rng(0)
    labels = random.integers(4, size=1000) - 1
    pairs = random.integers(1000, size=(2, 40000))
    drawn = sparse.coo_matrix((np.ones(40000), pairs), shape=(1000, 1000))
    many = Graph(((drawn + drawn.T) > 0).astype(float), features=np.ones((1000, 1)), labels=labels)
    assert random_homophily(many) == pytest.approx(edge_homophily(many), abs=0.01) == pytest.approx(1 / 3, abs=0.02)
    assert edge_homophily(Graph(sparse.csr_matrix((2, 2)), features=np.ones((2, 1)), labels=[0, 1])) is None


def compared(chosen, features, *, model="apgcn", **options):
    rows = [row(model, chosen, chosen=True), row("mlp", features)]
    return describe_graph_effect(rows, num_edges=9, **options)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_five_nodes_or_fewer_show_nothing(count):
    """If two models are equally good, one of them is right in all five nodes that differ with probability 1 / 16."""
    all_right, all_wrong = [True] * count, [False] * count
    assert "no measurable difference: +100.0 points" in compared(all_right, all_wrong)
    assert "no measurable difference: -100.0 points" in compared(all_wrong, all_right)
    assert "helps: +100.0" in compared([True] * 6, [False] * 6)
    assert describe_better_baseline([row("lp", all_right), row("apgcn", all_wrong, chosen=True)]) is None


def test_intervals_of_differences_contain_the_true_one_as_often_as_they_state():
    """Simulated, for few and many nodes; and no bound is beyond 100 points."""
    random = np.random.default_rng(0)
    for count, better, worse in ((6, 0.3, 0.2), (20, 0.4, 0.1), (20, 0.02, 0.02), (300, 0.15, 0.05)):
        covered = 0
        for _ in range(2000):
            outcome = random.choice(3, size=count, p=[better, worse, 1 - better - worse])
            _, low, high = paired_difference(row("a", outcome == 0), row("b", outcome == 1))
            assert -1 <= low < high <= 1
            covered += low <= better - worse <= high
        assert covered / 2000 > 0.93


def test_advice_is_not_to_do_what_was_done():
    wrong, right = [False] * 50, [True] * 50
    with_steps = compared(wrong, right, can_keep=True)
    assert with_steps.endswith("; try --model auto or --set min_steps=0 --set l2=0.0005.")
    assert compared(wrong, right, model="gcn").endswith("; try --model auto.")
    assert compared(wrong, right, model="lp + C&S").endswith("(95 % interval -100.0 to -88.7); try --model auto.")
    assert compared(wrong, right, auto=True).endswith("(95 % interval -100.0 to -88.7).")
    rows = [row("lp", right), row("apgcn", wrong, chosen=True)]
    assert describe_better_baseline(rows).endswith("; try --model auto or --correct-and-smooth.")
    assert describe_better_baseline(rows, auto=True).endswith("the known labels are the better evidence.")


def test_features_alone_show_that_the_graph_does_not_help_only_if_they_were_chosen_among_models():
    rows = [row("mlp", [True] * 9, chosen=True), row("lp", [True] * 9)]
    assert describe_graph_effect(rows, num_edges=9) is None
    assert "no model that uses it was better" in describe_graph_effect(rows, num_edges=9, auto=True)


@pytest.mark.parametrize("model", ["auto", "lp", "apgcn"])
def test_a_graph_without_edges_is_named(model):
    graph = two_communities()
    graph = Graph(sparse.csr_matrix((60, 60)), features=graph.features, labels=graph.labels)
    split = split_for_fit(graph.labels, model=model, test_size=0.2, seed=0)
    overrides = {} if model == "lp" else {"max_epochs": 3}
    trained, predictions = fit_with_leaderboard(graph, split, FitOptions(model=model, overrides=overrides))
    assert trained.metrics["advice"][0].startswith("The graph has no edges")
    assert trained.metrics["homophily"] is None
    np.testing.assert_allclose(predictions.probabilities.sum(1), 1, atol=1e-6)
