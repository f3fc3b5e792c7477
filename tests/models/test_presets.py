"""The presets, against the places that their values come from."""

from dataclasses import fields, replace

import pytest

from apgcn.data import DATASETS, HETEROPHILOUS_GRAPHS
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.presets import PRESET_NAMES, PRESETS, PROTOCOL_TEXT, Preset, preset_values, presets_for
from apgcn.models.registry import MODELS
from apgcn.training.config import TrainingConfig, preset_config

# the paper's Section V and Table IV; for Amazon also the authors' script
PAPER = {  # penalty, l2, the two dropouts, monitored loss
    "cora": (0.005, 0.008, 0.0, "stopping"),
    "citeseer": (0.001, 0.008, 0.0, "stopping"),
    "cora_ml": (0.005, 0.008, 0.0, "stopping"),
    "pubmed": (0.001, 0.008, 0.0, "stopping"),
    "ms_academic": (0.05, 0.008, 0.0, "stopping"),
    "amazon_computers": (0.05, 0.0, 0.5, "training"),
    "amazon_photo": (0.05, 0.0, 0.5, "training"),
    **dict.fromkeys(HETEROPHILOUS_GRAPHS, (0.005, 0.008, 0.0, "stopping")),  # not in the paper: as for Cora-ML
}


def test_every_model_has_presets():
    assert PRESETS.keys() == MODELS.keys()


@pytest.mark.parametrize("name", PAPER)
def test_default_preset_of_apgcn_is_the_papers(name):
    model, training = preset_config(name)
    penalty, l2, dropout, monitor = PAPER[name]
    assert (model.penalty, model.z0_dropout, model.update_dropout) == (penalty, dropout, dropout)
    assert (training.l2, training.monitor) == (l2, monitor)
    assert (model.hidden_channels, model.dropout, model.edge_dropout, model.max_steps, model.epsilon) == (
        64,
        0.5,
        0.5,
        10,
        0.01,
    )
    assert (model.halting_interval, training.learning_rate) == (5, 0.01)
    assert (training.patience, training.max_epochs) == (100, 10_000)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", MODELS)
def test_every_value_has_a_source(name, dataset):
    """In every preset: all hyperparameters of the model, and all of its training if it is trained."""
    assert presets_for(name, dataset)
    of_model = {field.name for field in fields(MODELS[name])}
    training = {field.name for field in fields(TrainingConfig)} if MODELS[name].has_weights else set()
    for preset in presets_for(name, dataset):
        values = preset_values(name, dataset, preset)
        assert values.keys() == of_model | training
        assert all(sourced.source for sourced in values.values())


def test_published_presets_have_the_published_values():
    """Typed here a second time, so that a typing error in the presets shows."""
    expected = {
        "vgcn": {
            "hidden_channels": 16,
            "l2": 5e-4,
            "edge_dropout": 0.0,
            "patience": 10,
            "early_stop_mode": "loss",
            "max_epochs": 200,
        },
        "gcn": {"hidden_channels": 64, "l2": 0.02, "edge_dropout": 0.5, "dropout": 0.5},
        "ngcn": {"hidden_channels": 16, "heads": 4, "min_power": 0, "max_power": 4, "l2": 1e-5},
        "gat": {"heads": 8, "hidden_channels": 8, "dropout": 0.6, "l2": 0.01},
        "jk": {"layers": 3, "hidden_channels": 64, "l2": 1e-3, "dropout": 0.5},
        "btfp": {"teleport": 0.2, "max_steps": 10, "rounds": 10, "growth": 0.1},
        "ppnp": {"hidden_channels": 64, "l2": 0.005, "dropout": 0.5, "matrix_dropout": 0.5, "teleport": 0.1},
        "appnp": {
            "hidden_channels": 64,
            "l2": 0.005,
            "dropout": 0.5,
            "edge_dropout": 0.5,
            "max_steps": 10,
            "teleport": 0.1,
        },
        "arma": {"hidden_channels": 16, "stacks": 2, "depth": 1, "dropout": 0.5, "skip_dropout": 0.75, "l2": 1e-4},
        "cheb": {"hidden_channels": 16, "order": 3, "dropout": 0.5, "l2": 5e-4},
    }
    for name, values in expected.items():
        model, training = preset_config("cora_ml", model=name, preset="published")
        if name not in ("vgcn", "btfp"):  # the code behind the published numbers
            assert (training.patience, training.monitor, training.early_stop_mode) == (100, "regularised", "tie")
        assert {**vars(model), **vars(training)}.items() >= values.items(), name


def test_paper_presets_have_the_values_of_the_paper():
    for name in ("gcn", "gat", "appnp", "arma", "apgcn"):
        model, training = preset_config("amazon_photo", model=name)
        assert (training.l2, training.learning_rate, model.dropout) == (0.0, 0.01, 0.5)
        assert model.hidden_channels * getattr(model, "heads", 1) == 64
    for name in ("ppnp", "appnp"):
        assert preset_config("amazon_photo", model=name)[0].teleport == 0.2
        assert preset_config("ms_academic", model=name)[0].teleport == 0.2
        assert preset_config("pubmed", model=name)[0].teleport == 0.1
    arma, training = preset_config("cora_ml", model="arma")
    assert (arma.hidden_channels, arma.dropout, training.l2, training.early_stop_mode) == (64, 0.5, 0.008, "either")


def test_models_that_the_paper_did_not_run_on_amazon_have_no_l2_there():
    for name in ("ngcn", "jk", "ppnp", "cheb"):
        default, published = (preset_config("amazon_photo", model=name, preset=p) for p in (None, "published"))
        assert default[1] == replace(published[1], l2=0.0, monitor="stopping", early_stop_mode="either")
        assert replace(default[0], **({"teleport": 0.1} if name == "ppnp" else {})) == published[0]


def test_the_preset_behind_the_papers_tables_comes_first():
    """What its authors ran themselves, and otherwise what was published with the numbers that they copied."""
    from apgcn.benchmark.published import ACCURACIES, RUN_BY_AUTHORS

    for (dataset, model), cell in ACCURACIES.items():
        assert presets_for(model, dataset)[0] == ("paper" if cell.source == RUN_BY_AUTHORS else "published")


def test_presets_are_never_mixed():
    """A value of one preset is not taken from another."""
    paper, published = (preset_values("gcn", "amazon_photo", preset) for preset in ("paper", "published"))
    assert (paper["l2"].value, published["l2"].value) == (0.0, 0.02)
    assert paper["l2"].source != published["l2"].source
    assert set(PRESET_NAMES) == {"published", "paper", "tuned", "text", "script", "protocol"}


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].has_weights])
def test_the_variant_protocol_stops_every_model_by_one_rule(name, dataset):
    default, protocol = (preset_config(dataset, model=name, preset=preset) for preset in (None, "protocol"))
    limit = PROTOCOL_TEXT["max_epochs"]
    rule = {"patience": 100, "max_epochs": limit, "monitor": "stopping", "early_stop_mode": "either"}
    assert protocol == (default[0], replace(default[1], **rule))


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("name", [name for name in MODELS if "script" in presets_for(name, "cora")])
def test_the_variant_script_adds_the_dropouts_and_the_monitored_loss_of_the_script(name, dataset):
    default, script = (preset_config(dataset, model=name, preset=preset) for preset in (None, "script"))
    limit = PROTOCOL_TEXT["max_epochs"]
    rule = {"patience": 100, "max_epochs": limit, "monitor": "training", "early_stop_mode": "either"}
    dropouts = {rate: 0.5 for rate in ("z0_dropout", "update_dropout") if hasattr(default[0], rate)}
    assert dropouts
    assert script == (replace(default[0], **dropouts), replace(default[1], **rule))


def test_models_without_the_variant_script_have_nothing_to_drop():
    """JK's last layer does not propagate; the others are not trained or do not propagate class scores."""
    assert {name for name in MODELS if "script" not in presets_for(name, "cora")} == {
        "jk",
        "btfp",
        "mlp",
        "lp",
        "ndls",
        "grand",
    }


def test_text_and_script_of_apgcn_are_what_the_paper_ran():
    """The text on citation graphs, the script on the Amazon graphs."""
    for dataset in PAPER:
        text, script, paper = (preset_config(dataset, preset=name) for name in ("text", "script", "paper"))
        assert paper == (script if dataset.startswith("amazon") else text)
        assert text != script


def test_an_unknown_hyperparameter_is_rejected():
    for arguments in ({"penatly": 0.5}, {"settings": "paper"}, {"model": "gat", "penalty": 3}):
        with pytest.raises(UnknownName, match="unknown hyperparameter of "):
            preset_config("cora", **arguments)


@pytest.mark.parametrize("arguments", [{"preset": 5}, {"model": ["gcn"]}, {"preset": "publisht"}])
def test_an_unknown_preset_or_model_is_rejected(arguments):
    with pytest.raises(UnknownName, match=r"unknown (preset|model) "):
        preset_config("cora", **arguments)


def test_a_preset_that_a_model_does_not_have_is_rejected():
    with pytest.raises(InvalidInput, match="gcn has no tuned preset for cora; available: published"):
        preset_values("gcn", "cora", "tuned")
    with pytest.raises(UnknownName, match="unknown preset 'best'"):
        Preset("best", "nowhere", {})
