"""Where does a setting come from? Three kinds of settings, which are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

from apgcn.data.registry import AMAZON_GRAPHS
from apgcn.errors import InvalidInput, UnknownName

Kind = Literal["paper", "published", "tuned"]
KINDS: tuple[str, ...] = get_args(Kind)

AP_GCN = "AP-GCN paper, Section V"
PPNP = "PPNP paper (Gasteiger et al., ICLR 2019), to the best of our knowledge"


TEXT = {
    "learning_rate": 0.01,
    "patience": 100,
    "max_epochs": 10_000,
    "monitor": "stopping",
    "early_stop_mode": "either",
}
PROGRAM = {**TEXT, "monitor": "regularised", "early_stop_mode": "tie"}


@dataclass(frozen=True)
class Preset:
    """Settings that somebody chose for a model.

    Parameters
    ----------
    kind : "published", "paper" or "tuned"
        As the model's own paper or the PPNP paper gave them; as the AP-GCN paper says that its authors ran the model,
        or treated a graph; or ours, found on validation seeds or taken over from a relative. Where such a source leaves
        a value open, ours fills the gap, and `source` says so.
    source : str
        Where that is written.
    values : settings by name, of the model and of its training
    datasets : names
        The graphs that they are for; all, if none is named.
    """

    kind: Kind
    source: str
    values: Mapping[str, Any]
    datasets: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("kind of settings", self.kind, KINDS)

    def is_for(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets


def protocol(kind: Kind, datasets: tuple[str, ...] = ()) -> Preset:
    """How everything is trained, unless a model says otherwise: the protocol of the PPNP paper, which AP-GCN's took.

    The published numbers come from the PPNP paper's program, which keeps patience a little longer than the text says.
    """
    if kind == "published":
        return Preset(kind, "program of the PPNP paper (github.com/gasteigerjo/ppnp)", PROGRAM, datasets)
    return Preset(kind, f"protocol of the {PPNP}", TEXT, datasets)


def as_on_amazon(values: Mapping[str, Any]) -> tuple[Preset, Preset]:
    """The paper's way with the Amazon graphs, no l2, for a model that its authors did not run there."""
    source = "as the AP-GCN paper did on Amazon, though not with this model"
    return protocol("paper", AMAZON_GRAPHS), Preset("paper", source, {**values, "l2": 0.0}, AMAZON_GRAPHS)


class Sourced(NamedTuple):
    """A value, and where it comes from."""

    value: Any
    source: str


def presets_for(model: Any, dataset: str) -> list[str]:
    """The kinds of settings that a model (its class of settings) has for a graph.

    The first is the one behind the paper's tables: what its authors ran where they ran the model themselves, and
    otherwise what was published with the numbers that they copied.
    """
    return [kind for kind in KINDS if any(one.kind == kind and one.is_for(dataset) for one in model.given)]


def preset_values(model: Any, dataset: str, kind: str | None = None) -> dict[str, Sourced]:
    """A model's settings of one kind for a graph, by name; without a kind, those behind the paper's tables.

    Raises
    ------
    UnknownName, InvalidInput
        If there is no such kind, or the model has none of it for this graph.
    """
    there = presets_for(model, dataset)
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind of settings", kind, KINDS)
    if kind is not None and kind not in there:
        raise InvalidInput(f"{model.name} has no {kind} settings for {dataset}; there are {' and '.join(there)} ones.")
    wanted = kind or there[0]
    return {
        name: Sourced(value, one.source)
        for one in model.given
        if one.kind == wanted and one.is_for(dataset)
        for name, value in one.values.items()  # a later one has the last word
    }
