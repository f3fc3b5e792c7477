"""Registry of the tables and figures.

A new one is a module beside this one, with `plan(scope)` and `build(store, scope)`, and one line in `ARTIFACTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from apgcn.benchmark import (
    ablation,
    accuracy_tables,
    figure2,
    figure3,
    figure4,
    freezing,
    penalty_sweep,
    table1,
    table4,
    table5,
)
from apgcn.benchmark.artifacts import Artifact
from apgcn.benchmark.config import PROTOCOL_RUNS, RunKey, Scope
from apgcn.benchmark.published import AMAZON_GRAPHS, CITATION_GRAPHS, GRAPHS, MODEL_TITLES
from apgcn.benchmark.store import Store
from apgcn.data import DATASETS, dataset_info
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.presets import PRESET_NAMES
from apgcn.models.registry import MODELS, config_class


@dataclass(frozen=True)
class ArtifactSpec:
    """A table or figure: the runs that it needs, and the function that computes it from their records.

    Parameters
    ----------
    name : str
    graphs : tuple of str
        The graphs that the paper shows in it.
    plan : function
        Run keys of a scope.
    build : function
        The artifact, from a store and a scope.
    measure : function, optional
        Measures what is not a training run: graph sizes, times of an epoch.
    model_filter : str
        Which models it can show, a key of `MODEL_FILTERS`; "" for all.
    other_graphs : tuple of str
        Graphs that it can show besides the paper's.
    """

    name: str
    graphs: tuple[str, ...]
    plan: Callable[[Scope], list[RunKey]]
    build: Callable[[Store, Scope], Artifact]
    measure: Callable[..., None] | None = None
    model_filter: str = ""
    other_graphs: tuple[str, ...] = ()

    def includes(self, dataset: str) -> bool:
        return dataset in self.graphs or dataset in self.other_graphs


def _trained_models(models: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(model for model in models if MODELS[model].has_weights)


MODEL_FILTERS: Mapping[str, Callable[[tuple[str, ...]], Sequence[str]]] = MappingProxyType(
    {"": lambda models: models, "halts": penalty_sweep.halting_models, "is trained": _trained_models}
)

# Published splits have no validation nodes, by which Table 4 and Figure 3 choose, nor a number of training nodes.
_ALL = tuple(DATASETS)
_DRAWN_SPLITS = tuple(name for name in _ALL if not DATASETS[name].has_splits)
_NOT_AMAZON = tuple(name for name in _ALL if name not in AMAZON_GRAPHS)
_FIGURE3 = ("cora_ml", "amazon_computers")

ARTIFACTS: Mapping[str, ArtifactSpec] = MappingProxyType(
    {
        spec.name: spec
        for spec in (
            ArtifactSpec("table1", GRAPHS, table1.plan, table1.build, table1.measure, "", _DRAWN_SPLITS),
            ArtifactSpec(
                "table2", CITATION_GRAPHS, accuracy_tables.plan, accuracy_tables.build_table2, None, "", _NOT_AMAZON
            ),
            ArtifactSpec("table3", AMAZON_GRAPHS, accuracy_tables.plan, accuracy_tables.build_table3),
            ArtifactSpec("figure2", GRAPHS, figure2.plan, figure2.build, None, "halts", _ALL),
            ArtifactSpec("table4", GRAPHS, table4.plan, table4.build, None, "halts", _DRAWN_SPLITS),
            ArtifactSpec("table5", GRAPHS, table5.plan, table5.build, table5.measure, "is trained", _ALL),
            ArtifactSpec("figure3", _FIGURE3, figure3.plan, figure3.build, None, "halts", _DRAWN_SPLITS),
            ArtifactSpec("figure4", ("cora_ml",), figure4.plan, figure4.build, None, "", _DRAWN_SPLITS),
            ArtifactSpec("ablation", AMAZON_GRAPHS, ablation.plan, ablation.build, None, "halts", _ALL),
            ArtifactSpec("freezing", GRAPHS, freezing.plan, freezing.build, None, "halts", _ALL),
        )
    }
)


def select_artifacts(
    name: str,
    *,
    models: Iterable[str] | None = None,
    datasets: Iterable[str] | None = None,
    runs: int = PROTOCOL_RUNS,
    preset: str | None = None,
) -> list[tuple[ArtifactSpec, Scope]]:
    """Artifacts by name, each with its scope: models, graphs, number of runs and preset.

    Parameters
    ----------
    name : str
        Key of `ARTIFACTS`, or "all".
    models : names, optional
        Default: all models.
    datasets : names, optional
        Default: the graphs that the paper shows.
    runs : int
    preset : str, optional
        Default: for each model the preset behind the paper's row.

    Raises
    ------
    UnknownName, InvalidInput
        If there is no such artifact, model, graph or preset, or if the artifact does not show that graph.
    """
    if name != "all" and name not in ARTIFACTS:
        raise UnknownName("table or figure", name, [*ARTIFACTS, "all"])
    model_names = tuple(MODELS) if models is None else tuple(dict.fromkeys(models))
    dataset_names = None if datasets is None else tuple(dict.fromkeys(datasets))
    for what, names in (("model", model_names), ("dataset", dataset_names)):
        if names == ():
            raise InvalidInput(f"there must be at least one {what}, got none.")
    for model in model_names:
        config_class(model)
    for dataset in dataset_names or ():
        dataset_info(dataset)
        if name != "all" and not ARTIFACTS[name].includes(dataset):
            alternatives = [spec.name for spec in ARTIFACTS.values() if spec.includes(dataset)]
            raise InvalidInput(
                f"{name} shows {', '.join(ARTIFACTS[name].graphs)}, not {dataset}; "
                f"{dataset} is in {', '.join(alternatives)}."
            )
    model_filter = "" if name == "all" else ARTIFACTS[name].model_filter
    if not MODEL_FILTERS[model_filter](model_names):
        suitable = ", ".join(MODEL_FILTERS[model_filter](tuple(MODELS)))
        raise InvalidInput(f"{name} needs a model that {model_filter} ({suitable}), got {', '.join(model_names)}.")
    selected = []
    for spec in ARTIFACTS.values() if name == "all" else [ARTIFACTS[name]]:
        graphs = spec.graphs if dataset_names is None else tuple(filter(spec.includes, dataset_names))
        if graphs:
            selected.append((spec, Scope(model_names, graphs, runs, preset)))
    if preset is not None:
        _check_preset(preset, [scope for _, scope in selected])
    return selected


def _check_preset(preset: str, scopes: list[Scope]) -> None:
    """Raise if the preset does not exist, or if no model has it for these graphs."""
    if preset not in PRESET_NAMES:
        raise UnknownName("preset", preset, PRESET_NAMES)
    if not any(pair for scope in scopes for pair in scope.pairs()):
        raise InvalidInput(
            f"none of the models has the preset {preset} for these graphs; apgcn models lists the presets."
        )


def artifacts_in_store(store: Store) -> list[tuple[ArtifactSpec, Scope]]:
    """All artifacts, each with every model and graph that the store may have records of."""
    models = tuple(dict.fromkeys([*MODEL_TITLES, *MODELS]))
    recorded = {record.dataset for record in store.records.values()} | set(store.graphs)
    recorded |= {record.dataset for record in store.timings.values()}
    return [
        (spec, Scope(models, (*spec.graphs, *_further_graphs(spec, recorded)), runs=None))
        for spec in ARTIFACTS.values()
    ]


def _further_graphs(spec: ArtifactSpec, recorded: set[str]) -> list[str]:
    """Graphs of the store that the paper's artifact does not have."""
    return [name for name in DATASETS if name in recorded and name in spec.other_graphs and name not in spec.graphs]
