"""Hyperparameter presets of every model, each value with its source.

A preset is a named set of hyperparameters that somebody chose for a model, perhaps for some graphs only. Three names
have values with a source, and values of one are never mixed with values of another:

* "published": as the model's own paper or the PPNP paper gave them;
* "paper": as the AP-GCN paper states that its authors ran the model, or treated a graph;
* "tuned": ours, found on validation seeds or copied from a related model.

Where such a source leaves a value open, one of ours fills the gap, and `source` states so. Three more names are
variants, which give the default preset of every model the same treatment, so that models can be compared with all else
equal: "protocol" (`PROTOCOL_TEXT`), "script" and "text" (`VARIANTS`).

`PRESETS` has the values by model name; `presets_for` and `preset_values` look them up for a graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from apgcn.data.registry import AMAZON_GRAPHS, HETEROPHILOUS_GRAPHS
from apgcn.errors import InvalidInput, UnknownName

SourceName = Literal["paper", "published", "tuned"]
VariantName = Literal["text", "script", "protocol"]
PresetName = SourceName | VariantName
SOURCE_NAMES: tuple[str, ...] = get_args(SourceName)
PRESET_NAMES: tuple[str, ...] = (*SOURCE_NAMES, *get_args(VariantName))

AP_GCN = "AP-GCN paper, Section V"
AP_GCN_SCRIPT = "the authors' script, see docs/paper_vs_code.md"
PPNP = "PPNP paper (Gasteiger et al., ICLR 2019), to the best of our knowledge"
KIPF = "Kipf and Welling, ICLR 2017, who compared it with their GCN (order 3)"
SPEKTRAL = "the authors' example in their library spektral (citation graphs), where l2 adds l2 |W|^2, here half of it"
ARMA_SEARCH = "not in the AP-GCN paper; ours, on validation seeds of Citeseer and Cora-ML: results/tuning"
NORM_SEARCH = "ours, on validation seeds of Citeseer and Cora-ML: results/gaps.jsonl"
RIDGE_SEARCH = "not in the papers, as far as we know; ours, on validation seeds: scripts/ridge (cora as cora_ml)"


@dataclass(frozen=True)
class Preset:
    """Hyperparameters that one source gives for a model.

    Parameters
    ----------
    name : "published", "paper" or "tuned"
    source : str
        Where the values are written.
    values : mapping
        Hyperparameters by name, of the model and of its training.
    datasets : tuple of str
        The graphs that they are for; empty for all graphs.
    """

    name: SourceName
    source: str
    values: Mapping[str, Any]
    datasets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in SOURCE_NAMES:
            raise UnknownName("preset", self.name, SOURCE_NAMES)

    def applies_to(self, dataset: str) -> bool:
        """Whether the values are for this graph."""
        return not self.datasets or dataset in self.datasets


class SourcedValue(NamedTuple):
    """A hyperparameter's value, and where it comes from."""

    value: Any
    source: str


def presets_for(model: str, dataset: str) -> list[str]:
    """Names of the presets that a model has for a graph.

    The first is the default, the one behind the paper's tables: what its authors ran where they ran the model
    themselves, and otherwise what was published with the numbers that they copied.
    """
    available = {preset.name for preset in _model_presets(model) if preset.applies_to(dataset)}
    variants = [name for name, variant in VARIANTS.items() if variant.applies_to(model)]
    return [*(name for name in SOURCE_NAMES if name in available), *variants]


def preset_values(model: str, dataset: str, preset: str | None = None) -> dict[str, SourcedValue]:
    """Hyperparameters of one preset of a model for a graph, by name; by default the preset behind the paper's tables.

    Raises
    ------
    UnknownName, InvalidInput
        If there is no such preset, or the model has no values of it for this graph.
    """
    available = presets_for(model, dataset)
    if preset is not None and preset not in PRESET_NAMES:
        raise UnknownName("preset", preset, PRESET_NAMES)
    if preset is not None and preset not in available:
        raise InvalidInput(f"{model} has no {preset} preset for {dataset}; available: {', '.join(available)}.")
    selected = preset or available[0]
    if selected in VARIANTS:
        default, variant = preset_values(model, dataset), VARIANTS[selected]
        changes = {name: SourcedValue(value, variant.source) for name, value in variant.values.items()}
        return {name: changes.get(name, sourced) for name, sourced in default.items()}
    return {
        name: SourcedValue(value, part.source)
        for part in _model_presets(model)
        if part.name == selected and part.applies_to(dataset)
        for name, value in part.values.items()  # a later part overrides an earlier one
    }


def _model_presets(model: str) -> tuple[Preset, ...]:
    try:
        return PRESETS[model]
    except (KeyError, TypeError):  # TypeError: an unhashable name
        raise UnknownName("model", model, PRESETS) from None


# How models are trained unless their own preset differs: the protocol of the PPNP paper, which the AP-GCN paper
# adopted. The published numbers come from the PPNP paper's code, which resets patience more often than its text states.
NO_CONSISTENCY = {
    "consistency": 0.0,
    "consistency_passes": 2,
    "consistency_warmup": 100,
    "temperature": 0.5,
    "confidence": 0.0,
}
PROTOCOL_TEXT = {
    "learning_rate": 0.01,
    "patience": 100,
    "max_epochs": 10_000,
    "monitor": "stopping",
    "early_stop_mode": "either",
    **NO_CONSISTENCY,
}
PROTOCOL_CODE = {**PROTOCOL_TEXT, "monitor": "regularised", "early_stop_mode": "tie"}

PUBLISHED_PROTOCOL = Preset("published", "program of the PPNP paper (github.com/gasteigerjo/ppnp)", PROTOCOL_CODE)
PAPER_PROTOCOL = Preset("paper", f"protocol of the {PPNP}", PROTOCOL_TEXT)
AMAZON_PROTOCOL = Preset("paper", PAPER_PROTOCOL.source, PROTOCOL_TEXT, AMAZON_GRAPHS)


@dataclass(frozen=True)
class Variant:
    """Values that replace those of the default preset, for every model that has these hyperparameters.

    Parameters
    ----------
    source : str
    values : mapping
        Hyperparameters by name.
    requires : str
        The variant is of the models that have this hyperparameter.
    """

    source: str
    values: Mapping[str, Any]
    requires: str

    def applies_to(self, model: str) -> bool:
        """Whether a model has the variant."""
        return any(self.requires in preset.values for preset in _model_presets(model))


EARLY_STOPPING = {name: PROTOCOL_TEXT[name] for name in ("patience", "max_epochs", "monitor", "early_stop_mode")}
SCRIPT_DROPOUTS = {"z0_dropout": 0.5, "update_dropout": 0.5}
VARIANTS: Mapping[str, Variant] = {
    "text": Variant(
        f"{AP_GCN}: without what only the script has",
        {"z0_dropout": 0.0, "update_dropout": 0.0, **EARLY_STOPPING},
        requires="penalty",
    ),
    "script": Variant(
        AP_GCN_SCRIPT, {**SCRIPT_DROPOUTS, **EARLY_STOPPING, "monitor": "training"}, requires="z0_dropout"
    ),
    "protocol": Variant(f"{PAPER_PROTOCOL.source}: one rule for all models", EARLY_STOPPING, requires="patience"),
}


def amazon_without_l2(values: Mapping[str, Any]) -> tuple[Preset, Preset]:
    """The AP-GCN paper's choices for the Amazon graphs, no l2, for a model that its authors did not run there."""
    source = "as the AP-GCN paper did on Amazon, though not with this model"
    return AMAZON_PROTOCOL, Preset("paper", source, {**values, "l2": 0.0}, AMAZON_GRAPHS)


def _apgcn(name: SourceName, prefix: str = "") -> tuple[Preset, ...]:
    """AP-GCN's values as the presets `name`.

    The AP-GCN paper being the model's own, its values are both the "paper" and the "published" preset; models derived
    from AP-GCN take them as "tuned", with a prefix to the source.
    """
    architecture = {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, "max_steps": 10, "halting_interval": 5}
    training = {"learning_rate": 0.01, "l2": 0.008, "z0_dropout": 0.0, "update_dropout": 0.0}
    steps = {"min_steps": 1, "teleport": 0.0}
    script_on_amazon = {"z0_dropout": 0.5, "update_dropout": 0.5, "monitor": "training"}
    table_4 = f"{prefix}AP-GCN paper, Table IV"
    return (
        Preset(name, f"{prefix}{PAPER_PROTOCOL.source}", PROTOCOL_TEXT),
        Preset(name, f"{prefix}{AP_GCN}", {**architecture, **training, **steps}),
        Preset(name, f"{prefix}{AP_GCN_SCRIPT}", {"epsilon": 0.01, "freeze_halted": False}),
        Preset(name, table_4, {"penalty": 0.001}, ("citeseer", "pubmed")),
        Preset(name, table_4, {"penalty": 0.005}, ("cora_ml",)),
        Preset(name, f"{prefix}not in the paper: as for Cora-ML", {"penalty": 0.005}, ("cora", *HETEROPHILOUS_GRAPHS)),
        Preset(name, table_4, {"penalty": 0.05}, ("ms_academic", *AMAZON_GRAPHS)),
        Preset(name, f"{prefix}{AP_GCN}", {"l2": 0.0}, AMAZON_GRAPHS),
        Preset(name, f"{prefix}{AP_GCN_SCRIPT}", script_on_amazon, AMAZON_GRAPHS),
    )


APGCN_PRESETS = (*_apgcn("paper"), *_apgcn("published"))
ADAPTIVE_PAGERANK_PRESETS = (
    *_apgcn("tuned", prefix="AP-GCN's, not searched: "),
    Preset("tuned", "APPNP's, not searched", {"teleport": 0.1}),
    Preset("tuned", "APPNP's, not searched", {"teleport": 0.2}, ("ms_academic", *AMAZON_GRAPHS)),
)

NO_SCRIPT_DROPOUT = {"z0_dropout": 0.0}  # in no paper of these models

SGC = "Wu et al., ICML 2019, and the defaults of their program (github.com/Tiiiger/SGC)"
SGC_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", SGC, {"max_steps": 2, "dropout": 0.0, **NO_SCRIPT_DROPOUT, "learning_rate": 0.2, "l2": 5e-6}),
)

DAGNN = "Liu et al., KDD 2020, and their program (github.com/mengliu1998/DeeperGNN)"
DAGNN_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", DAGNN, {"hidden_channels": 64, "learning_rate": 0.01, **NO_SCRIPT_DROPOUT}),
    Preset("published", f"{DAGNN}, for Cora", {"max_steps": 10, "dropout": 0.8, "l2": 0.005}),
    Preset("published", DAGNN, {"dropout": 0.5, "l2": 0.02}, ("citeseer",)),
    Preset("published", DAGNN, {"max_steps": 20}, ("pubmed",)),
    Preset("published", DAGNN, {"max_steps": 5, "l2": 0.0}, ("ms_academic",)),
    Preset("published", DAGNN, {"max_steps": 5, "dropout": 0.5, "l2": 5e-5}, ("amazon_computers",)),
    Preset("published", DAGNN, {"max_steps": 5, "dropout": 0.5, "l2": 5e-4}, ("amazon_photo",)),
)

GPRGNN = "Chien et al., ICLR 2021, and their program (github.com/jianhao2016/GPRGNN)"
GPRGNN_SIZE = {"hidden_channels": 64, "dropout": 0.5, "max_steps": 10, "z0_dropout": 0.5}
GPRGNN_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", GPRGNN, GPRGNN_SIZE),
    Preset("published", f"{GPRGNN}, for Cora", {"learning_rate": 0.01, "teleport": 0.1, "l2": 5e-4}),
    Preset("published", GPRGNN, {"learning_rate": 0.05, "teleport": 0.2}, ("pubmed",)),
    Preset("published", GPRGNN, {"learning_rate": 0.05, "teleport": 0.5, "l2": 0.0}, ("amazon_computers",)),
    Preset("published", GPRGNN, {"teleport": 0.5, "l2": 0.0}, ("amazon_photo",)),
)

VGCN_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset(
        "published",
        PPNP,
        {
            "hidden_channels": 16,
            "dropout": 0.5,
            "edge_dropout": 0.0,
            "l2": 5e-4,
            "early_stop_mode": "loss",
            "patience": 10,
            "max_epochs": 200,
            **NO_SCRIPT_DROPOUT,
        },
    ),
)

GCN_SIZE = {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, **NO_SCRIPT_DROPOUT}
GCN_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", PPNP, {**GCN_SIZE, "l2": 0.02}),
    AMAZON_PROTOCOL,
    Preset("paper", AP_GCN, {**GCN_SIZE, "l2": 0.0}, AMAZON_GRAPHS),
)

NGCN_SIZE = {"hidden_channels": 16, "heads": 4, "min_power": 0, "max_power": 4, "dropout": 0.5, **NO_SCRIPT_DROPOUT}
NGCN_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", PPNP, {**NGCN_SIZE, "l2": 1e-5}),
    *amazon_without_l2(NGCN_SIZE),
)

GAT_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", PPNP, {"heads": 8, "hidden_channels": 8, "dropout": 0.6, "l2": 0.01, **NO_SCRIPT_DROPOUT}),
    AMAZON_PROTOCOL,
    Preset("paper", AP_GCN, {"dropout": 0.5, "l2": 0.0, **NO_SCRIPT_DROPOUT}, AMAZON_GRAPHS),
    Preset("paper", "as published; the AP-GCN paper has 64 units", {"heads": 8, "hidden_channels": 8}, AMAZON_GRAPHS),
)

JK_SIZE = {"layers": 3, "hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.0}
JK_AS_CLEANED = {**JK_SIZE, "feature_norm": "l1"}
JK_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", PPNP, {**JK_AS_CLEANED, "l2": 1e-3}),
    *amazon_without_l2(JK_AS_CLEANED),
    Preset("tuned", f"as published: {PUBLISHED_PROTOCOL.source}", PROTOCOL_CODE),
    Preset("tuned", f"as published: {PPNP}", {**JK_SIZE, "l2": 1e-3}),
    Preset("tuned", f"on Amazon as the AP-GCN paper: {PAPER_PROTOCOL.source}", PROTOCOL_TEXT, AMAZON_GRAPHS),
    Preset("tuned", "on Amazon as the AP-GCN paper, though not with this model", {"l2": 0.0}, AMAZON_GRAPHS),
    Preset("tuned", NORM_SEARCH, {"feature_norm": "l2"}),
)

BTFP_PRESETS = (
    Preset("published", PPNP, {"teleport": 0.2, "max_steps": 10, "rounds": 10, "growth": 0.1}),
    Preset("published", RIDGE_SEARCH, {"ridge": 1.0}),
    Preset("published", RIDGE_SEARCH, {"ridge": 10.0}, ("citeseer",)),
    Preset("published", RIDGE_SEARCH, {"ridge": 3.0}, ("ms_academic",)),
    Preset("published", RIDGE_SEARCH, {"ridge": 0.01}, ("pubmed", *AMAZON_GRAPHS)),
)

PPNP_SIZE = {"hidden_channels": 64, "dropout": 0.5, "matrix_dropout": 0.5, **NO_SCRIPT_DROPOUT}
PPNP_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", PPNP, {**PPNP_SIZE, "teleport": 0.1, "l2": 0.005}),
    Preset("published", PPNP, {"teleport": 0.2}, ("ms_academic",)),
    *amazon_without_l2({**PPNP_SIZE, "teleport": 0.2}),
)

APPNP_SIZE = {"hidden_channels": 64, "dropout": 0.5, "edge_dropout": 0.5, **NO_SCRIPT_DROPOUT, "update_dropout": 0.0}
APPNP_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", PPNP, {**APPNP_SIZE, "teleport": 0.1, "max_steps": 10, "l2": 0.005}),
    Preset("published", PPNP, {"teleport": 0.2}, ("ms_academic",)),
    AMAZON_PROTOCOL,
    Preset("paper", AP_GCN, {**APPNP_SIZE, "teleport": 0.2, "max_steps": 10, "l2": 0.0}, AMAZON_GRAPHS),
)

ARMA_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset(
        "published",
        SPEKTRAL,
        {
            "hidden_channels": 16,
            "stacks": 2,
            "depth": 1,
            "dropout": 0.5,
            "skip_dropout": 0.75,
            "l2": 1e-4,
            **NO_SCRIPT_DROPOUT,
        },
    ),
    PAPER_PROTOCOL,
    Preset("paper", AP_GCN, {"hidden_channels": 64, "dropout": 0.5, **NO_SCRIPT_DROPOUT}),
    Preset("paper", f"{AP_GCN}, which states it of AP-GCN", {"l2": 0.008}),
    Preset("paper", AP_GCN, {"l2": 0.0}, AMAZON_GRAPHS),
    Preset("paper", ARMA_SEARCH, {"stacks": 1, "depth": 1}),
    Preset("paper", "not in the AP-GCN paper; ours, not searched", {"skip_dropout": 0.5}),
)

CHEB_SIZE = {"hidden_channels": 16, "order": 3, "dropout": 0.5, **NO_SCRIPT_DROPOUT}
CHEB_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", KIPF, {**CHEB_SIZE, "l2": 5e-4}),
    *amazon_without_l2(CHEB_SIZE),
)

MLP_PRESETS = (
    Preset("tuned", f"AP-GCN's, not searched: {PAPER_PROTOCOL.source}", PROTOCOL_TEXT),
    Preset("tuned", f"AP-GCN's, not searched: {AP_GCN}", {"hidden_channels": 64, "dropout": 0.5, "l2": 0.008}),
    Preset("tuned", f"AP-GCN's, not searched: {AP_GCN}", {"l2": 0.0}, AMAZON_GRAPHS),
)

LP_PRESETS = (Preset("tuned", "not in the paper; ours, not searched", {"teleport": 0.1, "max_steps": 50}),)

GRAND = "Feng et al., NeurIPS 2020, and their program (github.com/THUDM/GRAND)"
GRAND_CONSISTENCY = {
    "consistency": 1.0,
    "consistency_passes": 4,
    "consistency_warmup": 1,
    "temperature": 0.5,
    "confidence": 0.0,
}
GRAND_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", GRAND, {"hidden_channels": 32, "node_dropout": 0.5, "learning_rate": 0.01, "l2": 5e-4}),
    Preset("published", f"{GRAND}, for Cora", {"max_steps": 8, "input_dropout": 0.5, "dropout": 0.5, "patience": 200}),
    Preset("published", f"{GRAND}, for Cora", GRAND_CONSISTENCY),
    Preset("published", GRAND, {"max_steps": 2, "input_dropout": 0.0, "dropout": 0.2}, ("citeseer",)),
    Preset("published", GRAND, {"consistency": 0.7, "consistency_passes": 2, "temperature": 0.3}, ("citeseer",)),
    Preset(
        "published",
        f"{GRAND}, but for the learning rate of 0.2, which needs their batch normalisation",
        {"max_steps": 5, "input_dropout": 0.6, "dropout": 0.8, "temperature": 0.2, "patience": 100},
        ("pubmed",),
    ),
)

NDLS = "Zhang et al., NeurIPS 2021, and the defaults of their program (github.com/zwt233/NDLS)"
NDLS_PRESETS = (
    PUBLISHED_PROTOCOL,
    Preset("published", NDLS, {"hidden_channels": 64, "dropout": 0.5, "learning_rate": 0.1, "l2": 5e-4}),
    Preset("published", NDLS, {"max_steps": 199, "epsilon": 0.03, "teleport": 0.15}),
)

PRESETS: Mapping[str, tuple[Preset, ...]] = {
    "apgcn": APGCN_PRESETS,
    "vgcn": VGCN_PRESETS,
    "gcn": GCN_PRESETS,
    "ngcn": NGCN_PRESETS,
    "gat": GAT_PRESETS,
    "jk": JK_PRESETS,
    "btfp": BTFP_PRESETS,
    "ppnp": PPNP_PRESETS,
    "appnp": APPNP_PRESETS,
    "arma": ARMA_PRESETS,
    "cheb": CHEB_PRESETS,
    "mlp": MLP_PRESETS,
    "lp": LP_PRESETS,
    "sgc": SGC_PRESETS,
    "dagnn": DAGNN_PRESETS,
    "gprgnn": GPRGNN_PRESETS,
    "grand": GRAND_PRESETS,
    "ndls": NDLS_PRESETS,
    "ap-appnp": ADAPTIVE_PAGERANK_PRESETS,
    "ap-arma": ADAPTIVE_PAGERANK_PRESETS,
}
