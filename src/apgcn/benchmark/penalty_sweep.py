"""What does the price of a step do? Runs with every penalty of the paper's range, shared by Table 4 and Figure 3."""

from __future__ import annotations

from dataclasses import replace

from apgcn.benchmark.aggregate import Summary, comparable
from apgcn.benchmark.config import PROTOCOL, RunKey, Scope, defaults
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

PENALTIES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)


def sweeping(models: tuple[str, ...]) -> list[str]:
    """Those models that have a penalty."""
    return [model for model in models if "penalty" in defaults(model)]


def plan(scope: Scope) -> list[RunKey]:
    """Every penalty on every graph, all else as in the paper."""
    return [
        key
        for dataset, model in replace(scope, models=tuple(sweeping(scope.models))).pairs()
        for penalty in PENALTIES
        for key in scope.run_config(dataset, model, penalty=penalty).first_runs(scope.runs or PROTOCOL)
    ]


def swept(store: Store, scope: Scope, dataset: str, model: str) -> dict[float, list[Record]]:
    """The records by penalty, all of the same runs."""
    if not scope.takes(dataset, model):
        return {}
    conditions = {penalty: scope.run_config(dataset, model, penalty=penalty) for penalty in PENALTIES}
    return comparable({penalty: store.of(run_config, scope.runs) for penalty, run_config in conditions.items()})


def best(means: dict[float, Summary]) -> float:
    """The penalty that is best on validation nodes; test nodes have no say."""
    return max(means, key=lambda penalty: means[penalty].validation_accuracy or 0.0)
