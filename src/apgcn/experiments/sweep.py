"""What does the price of a step do? Runs with every penalty of the paper's range, shared by Table 4 and Figure 3."""

from __future__ import annotations

from apgcn.experiments.keys import Condition, RunKey, defaults
from apgcn.experiments.mean import Mean
from apgcn.experiments.record import Record
from apgcn.experiments.scope import PROTOCOL, Scope
from apgcn.experiments.store import Store

PENALTIES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)


def sweeping(models: tuple[str, ...]) -> list[str]:
    """Those models that have a penalty."""
    return [model for model in models if "penalty" in defaults(model)]


def plan(scope: Scope) -> list[RunKey]:
    """Every penalty on every graph, all else as in the paper."""
    return [
        key
        for dataset in scope.datasets
        for model in sweeping(scope.models)
        for penalty in PENALTIES
        for key in Condition.of_paper(dataset, model, penalty=penalty).first_runs(scope.runs or PROTOCOL)
    ]


def swept(store: Store, scope: Scope, dataset: str, model: str) -> dict[float, list[Record]]:
    """The records by penalty; with no more than the runs that every one of these penalties has, so that all means are
    over the same runs.
    """
    found = {
        penalty: store.of(Condition.of_paper(dataset, model, penalty=penalty), scope.runs) for penalty in PENALTIES
    }
    found = {penalty: records for penalty, records in found.items() if records}
    shared = set.intersection(*({_run(record) for record in records} for records in found.values())) if found else set()
    return {penalty: [record for record in records if _run(record) in shared] for penalty, records in found.items()}


def _run(record: Record) -> tuple[int, int]:
    return record.split, record.initialisation


def best(means: dict[float, Mean]) -> float:
    """The penalty that is best on validation nodes; test nodes have no say."""
    return max(means, key=lambda penalty: means[penalty].validation_accuracy or 0.0)
