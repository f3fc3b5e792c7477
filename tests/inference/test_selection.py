"""Fit with a leaderboard: baselines that fail, degenerate graphs, and what the comparison may state."""

import numpy as np
import pytest
from helpers.graphs import two_communities

from apgcn.inference.selection import FitOptions, fit_with_leaderboard, split_for_fit
from apgcn.models.lp import LPConfig

QUICK = {"max_epochs": 3}


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_a_baseline_without_enough_memory_is_left_out(monkeypatch, error):
    def solve(self, *_):
        raise error

    graph = two_communities()
    split = split_for_fit(graph.labels, model="apgcn", test_size=0.2, seed=0)
    monkeypatch.setattr(LPConfig, "solve", solve)
    model, predictions = fit_with_leaderboard(graph, split, FitOptions(overrides=QUICK))
    assert [row["model"] for row in model.metrics["leaderboard"] if row["model"] == "lp"] == []
    assert "label propagation (LP) was not trained: not enough memory." in model.metrics["advice"]
    assert np.isfinite(predictions.probabilities).all()
    with pytest.raises(type(error)):
        fit_with_leaderboard(graph, split, FitOptions(model="lp"))
