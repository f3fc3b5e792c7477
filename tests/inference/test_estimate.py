"""The estimate of a fit before it begins."""

import json
from pathlib import Path

import pytest
from helpers.graphs import block_graph

from apgcn.data.synthetic import synthetic_graph
from apgcn.inference.estimate import Estimate, describe_long_fit, estimate_fit
from apgcn.inference.selection import AUTO, FitOptions


def test_each_model_has_an_estimate_and_larger_graphs_take_longer():
    small, _ = block_graph(300, homophily=0.7, signal=0.3, labelled=0.5)
    large = synthetic_graph(20_000, edges=100_000)
    for options in (FitOptions(), FitOptions(model=AUTO)):
        estimates = [estimate_fit(graph, options) for graph in (small, large)]
        assert [each.title for each in estimates[0]] == list(map(options.title, options.models))
        assert all(10 * first.seconds < second.seconds for first, second in zip(*estimates, strict=True))


def test_known_labels_take_time_with_every_model_that_is_corrected():
    graph = synthetic_graph(20_000, edges=100_000)
    plain, corrected = (
        estimate_fit(graph, FitOptions(model=AUTO, correct_and_smooth=value)) for value in (False, None)
    )
    assert plain[0] == corrected[0]  # label propagation itself
    assert all(first.seconds < second.seconds for first, second in zip(plain[1:], corrected[1:], strict=True))


ROOT = Path(__file__).parents[2]
MODEL = "A {} (0.30 s per epoch)"


@pytest.mark.parametrize(
    ("seconds", "limit", "text"),
    [
        (59.0, None, None),
        (61.0, None, f"takes about 1 min 1 s by a rough estimate: {MODEL.format('1 min 1 s')}; L ends it earlier."),
        (61.0, 99.0, f"takes about 1 min 1 s by a rough estimate: {MODEL.format('1 min 1 s')}; L ends it earlier."),
        (
            600.0,
            99.0,
            f"would take about 10 min 0 s by a rough estimate, and L ends it: {MODEL.format('10 min 0 s')}.",
        ),
    ],
)
def test_a_fit_of_more_than_a_minute_is_announced(seconds, limit, text):
    sentence = describe_long_fit([Estimate("A", 0.3, seconds)], time_limit=limit, option="L")
    assert sentence == (text and f"this {text}")


def test_the_recorded_fit_of_a_large_graph_keeps_its_promises():
    """100,000 nodes on two cores: ten minutes; an estimate within a factor of two."""
    record = json.loads((ROOT / "benchmarks" / "results" / "large_fit.json").read_text())
    assert (record["nodes"], record["edges"], record["features"], record["classes"]) == (100_000, 500_000, 64, 40)
    unlimited, limited, auto = record["fits"]
    assert unlimited["seconds"] < 600
    assert 0.5 <= unlimited["estimated_seconds"] / unlimited["seconds"] <= 2
    assert limited["seconds"] < 1.2 * limited["time_limit"]
    label_propagation = next(row for row in unlimited["leaderboard"] if row["model"] == "lp")
    assert auto["seconds"] < 600
    assert auto["accuracy"] > label_propagation["accuracy"] - 0.01
