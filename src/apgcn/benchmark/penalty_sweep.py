"""Runs with every penalty of the paper's range, shared by Table 4 and Figure 3."""

from __future__ import annotations

from dataclasses import replace

from apgcn.benchmark.aggregate import Summary, restrict_to_common_runs
from apgcn.benchmark.config import PROTOCOL_RUNS, RunKey, Scope, default_hyperparameters
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

PENALTIES = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1)


def halting_models(models: tuple[str, ...]) -> list[str]:
    """Those of the models whose nodes halt, and which therefore have a penalty."""
    return [model for model in models if "penalty" in default_hyperparameters(model)]


def plan(scope: Scope) -> list[RunKey]:
    """Every penalty on every graph, with the paper's value of every other hyperparameter."""
    return [
        key
        for dataset, model in replace(scope, models=tuple(halting_models(scope.models))).pairs()
        for penalty in PENALTIES
        for key in scope.run_config(dataset, model, penalty=penalty).first_runs(scope.runs or PROTOCOL_RUNS)
    ]


def records_by_penalty(store: Store, scope: Scope, dataset: str, model: str) -> dict[float, list[Record]]:
    """Records of every penalty, restricted to the runs that all of them have."""
    if not scope.includes(dataset, model):
        return {}
    run_configs = {penalty: scope.run_config(dataset, model, penalty=penalty) for penalty in PENALTIES}
    return restrict_to_common_runs(
        {penalty: store.records_for(run_config, scope.runs) for penalty, run_config in run_configs.items()}
    )


def best_penalty(summaries: dict[float, Summary]) -> float:
    """Penalty with the highest accuracy on validation nodes; test nodes are not used."""
    return max(summaries, key=lambda penalty: summaries[penalty].validation_accuracy or 0.0)
