"""Which tables and figures are there? A new one is a file beside this one, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from apgcn.benchmark import figure2, figure3, figure4, freezing, penalty_sweep, table1, table2, table3, table4, table5
from apgcn.benchmark.artifacts import Artifact
from apgcn.benchmark.config import PROTOCOL, RunKey, Scope
from apgcn.benchmark.published import AMAZON_GRAPHS, CITATION_GRAPHS, GRAPHS, MODEL_TITLES
from apgcn.benchmark.store import Store
from apgcn.data import CATALOGUE, describe
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.presets import KINDS
from apgcn.models.registry import MODELS, config_class


@dataclass(frozen=True)
class Experiment:
    """A table or figure: what must be run for it, and what it then shows.

    `graphs` are the paper's; `others` says which graphs of the catalogue it can show besides; `about` is what the
    models do that it shows, one of `ABOUT`.
    """

    name: str
    graphs: tuple[str, ...]
    plan: Callable[[Scope], list[RunKey]]
    content: Callable[[Store, Scope], Artifact]
    measure: Callable[..., None] | None = None
    about: str = ""
    others: tuple[str, ...] = ()

    def takes(self, dataset: str) -> bool:
        return dataset in self.graphs or dataset in self.others


def _trained(models: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(model for model in models if MODELS[model].has_weights)


ABOUT: Mapping[str, Callable[[tuple[str, ...]], Sequence[str]]] = MappingProxyType(  # which of some models do that
    {"": lambda models: models, "halt": penalty_sweep.sweeping, "are trained": _trained}
)

EVERY = tuple(CATALOGUE)
NOT_AMAZON = tuple(name for name in EVERY if name not in AMAZON_GRAPHS)

EXPERIMENTS: Mapping[str, Experiment] = MappingProxyType(
    {
        experiment.name: experiment
        for experiment in (
            Experiment("table1", GRAPHS, table1.plan, table1.content, table1.measure, others=EVERY),
            Experiment("table2", CITATION_GRAPHS, table2.plan, table2.content, others=NOT_AMAZON),
            Experiment("table3", AMAZON_GRAPHS, table3.plan, table3.content),
            Experiment("figure2", GRAPHS, figure2.plan, figure2.content, about="halt", others=EVERY),
            Experiment("table4", GRAPHS, table4.plan, table4.content, about="halt", others=EVERY),
            Experiment(
                "table5", GRAPHS, table5.plan, table5.content, table5.measure, about="are trained", others=EVERY
            ),
            Experiment(
                "figure3",
                ("cora_ml", "amazon_computers"),
                figure3.plan,
                figure3.content,
                about="halt",
                others=EVERY,
            ),
            Experiment("figure4", ("cora_ml",), figure4.plan, figure4.content, others=EVERY),
            Experiment("freezing", GRAPHS, freezing.plan, freezing.content, about="halt", others=EVERY),
        )
    }
)


def chosen(
    name: str,
    *,
    models: Iterable[str] | None = None,
    datasets: Iterable[str] | None = None,
    runs: int = PROTOCOL,
    kind: str | None = None,
) -> list[tuple[Experiment, Scope]]:
    """What is asked for by name, `all` being everything; each with the models and graphs it is asked for.

    Without a choice of models all that exist are meant; without one of graphs, the paper's; without a kind of settings,
    those behind the paper's tables.

    Raises
    ------
    UnknownName, InvalidInput
        If there is no such experiment, model or graph, or the experiment does not show that graph.
    """
    if name != "all" and name not in EXPERIMENTS:
        raise UnknownName("experiment", name, [*EXPERIMENTS, "all"])
    wanted_models = tuple(MODELS) if models is None else tuple(dict.fromkeys(models))
    wanted = None if datasets is None else tuple(dict.fromkeys(datasets))
    for what, given in (("model", wanted_models), ("dataset", wanted)):
        if given == ():
            raise InvalidInput(f"there must be at least one {what}, got none.")
    for model in wanted_models:
        config_class(model)
    for dataset in wanted or ():
        describe(dataset)
        if name != "all" and not EXPERIMENTS[name].takes(dataset):
            others = [other.name for other in EXPERIMENTS.values() if other.takes(dataset)]
            raise InvalidInput(
                f"{name} shows {', '.join(EXPERIMENTS[name].graphs)}, not {dataset}; that is in {', '.join(others)}."
            )
    about = "" if name == "all" else EXPERIMENTS[name].about
    if not ABOUT[about](wanted_models):
        those = ", ".join(ABOUT[about](tuple(MODELS)))
        raise InvalidInput(f"{name} is about models that {about}, {those}, but not {', '.join(wanted_models)}.")
    selected = EXPERIMENTS.values() if name == "all" else [EXPERIMENTS[name]]
    scopes = []
    for experiment in selected:
        graphs = experiment.graphs if wanted is None else tuple(one for one in wanted if experiment.takes(one))
        if graphs:
            scopes.append((experiment, Scope(wanted_models, graphs, runs, kind)))
    if kind is not None:
        _check_kind(kind, [scope for _, scope in scopes])
    return scopes


def _check_kind(kind: str, scopes: list[Scope]) -> None:
    """Whether any of the models has settings of the kind, in words if not."""
    if kind not in KINDS:
        raise UnknownName("kind of settings", kind, KINDS)
    if not any(pair for scope in scopes for pair in scope.pairs()):
        raise InvalidInput(f"none of the models has {kind} settings for these graphs; apgcn models says which it has.")


def everything(store: Store) -> list[tuple[Experiment, Scope]]:
    """Every experiment with all that a store may have for it: what a report shows."""
    models = tuple(dict.fromkeys([*MODEL_TITLES, *MODELS]))
    seen = {record.dataset for record in store.records.values()} | set(store.graphs)
    seen |= {record.dataset for record in store.timings.values()}
    return [
        (experiment, Scope(models, (*experiment.graphs, *_further(experiment, seen)), runs=None))
        for experiment in EXPERIMENTS.values()
    ]


def _further(experiment: Experiment, seen: set[str]) -> list[str]:
    """Graphs that are in the store and not in the paper's experiment."""
    return [name for name in CATALOGUE if name in seen and name in experiment.others and name not in experiment.graphs]
