"""Which hyperparameters a search proposes, and from which ranges."""

import json
from functools import partial

import pytest

from apgcn.benchmark import config
from apgcn.cli import run
from apgcn.models.registry import MODELS
from apgcn.training.search_space import NAMED_SEARCH_SPACE, SEARCH_SPACE, searchable_hyperparameters

CONSISTENCY = {"consistency", "consistency_passes", "temperature", "confidence"}


def test_what_the_paper_does_not_have_is_searched_where_it_is_named():
    default = {"penalty", "l2", "dropout", "edge_dropout", "max_steps"}
    assert set(searchable_hyperparameters("apgcn")) == default
    named = {"teleport", "hidden_channels", "min_steps", "z0_dropout", "update_dropout"}
    assert set(searchable_hyperparameters("apgcn", named=True)) == default | named | CONSISTENCY
    assert "teleport" in searchable_hyperparameters("appnp")
    assert set(searchable_hyperparameters("lp", named=True)) == {"teleport", "max_steps"}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_that_is_trained_can_be_searched_with_consistency(name):
    assert (set(searchable_hyperparameters(name, named=True)) >= CONSISTENCY) == MODELS[name].has_weights
    assert not set(searchable_hyperparameters(name)) & NAMED_SEARCH_SPACE.keys()


def test_a_search_over_named_hyperparameters_stays_in_their_ranges(tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna")
    few_epochs = partial(config.preset_config, hidden_channels=8, max_epochs=3)
    monkeypatch.setattr(config, "preset_config", few_epochs)
    names = ["teleport", "min_steps", "consistency", "temperature"]
    tune = ["tune", "cora", "--trials", "3", "--runs", "1", "--store", str(tmp_path / "s"), "--json", "--search"]
    assert run([*tune, ",".join([*names, "epochs"])]) == 2
    assert "unknown hyperparameter to search for apgcn 'epochs'" in capsys.readouterr().err
    assert run([*tune, "teleport,temperature"]) == 2
    message = "--search temperature has no effect without consistency training; search consistency too."
    assert message in capsys.readouterr().err
    assert run([*tune, ",".join(names)]) == 0
    trials = json.loads(capsys.readouterr().out)["trials"]
    proposals = [trial["hyperparameters"] for trial in trials if trial["trial"]]
    assert len({tuple(proposal[name] for name in names) for proposal in proposals}) == 3
    for proposal in proposals:
        for name in names:
            bounds = (SEARCH_SPACE | NAMED_SEARCH_SPACE)[name]
            assert bounds.low <= proposal[name] <= bounds.high
