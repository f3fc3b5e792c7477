"""What is in a report? Every table and figure of the paper, what tuning found, and all there is."""

from __future__ import annotations

from typing import Any

from apgcn.benchmark import tuning_table
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunConfig, group_by_config
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, VALIDATION, hyperparameters_words, plus_minus
from apgcn.benchmark.registry import everything
from apgcn.benchmark.store import Store
from apgcn.data import CATALOGUE


def contents(store: Store) -> list[Artifact]:
    """The exhibits in the order of the page; those of the paper are there even if nothing was run for them."""
    artifacts = [experiment.content(store, scope) for experiment, scope in everything(store)]
    further = [tuning_table.content(store), overview(store)]
    return [*artifacts, *(artifact for artifact in further if artifact.recorded)]


NOTES = (
    "Accuracies in percent. Runs “for validation” are on the validation seeds, made to choose settings: their splits "
    "have no test nodes.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("for", lambda row: row["seed_set"], words=True),
    ArtifactColumn("labels a class", lambda row: str(row["labels"])),
    RUNS,
    ArtifactColumn("on test nodes", lambda row: plus_minus(row["accuracy"], row["interval"])),
    VALIDATION,
    STEPS,
    ArtifactColumn("hyperparameters", lambda row: row["hyperparameters"], words=True),
)


def overview(store: Store) -> Artifact:
    """The conditions by graph, model and what was changed."""
    rows: list[Row] = []
    conditions = group_by_config(record.run_key for record in store.records.values())
    for run_config in sorted(conditions, key=_order):
        mean = Summary.of(store.of(run_config))
        rows.append(
            {
                "dataset": run_config.dataset,
                "model": run_config.model,
                "seed_set": run_config.seed_set,
                "labels": run_config.train_per_class,
                **mean.row,
                "hyperparameters": hyperparameters_words(run_config),
            }
        )
    title = "everything in the store"
    return Artifact(
        "overview", title, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(store.records.values())
    )


def _order(run_config: RunConfig) -> tuple[Any, ...]:
    """The catalogue's order of graphs; strangers come last."""
    known = [*CATALOGUE]
    place = known.index(run_config.dataset) if run_config.dataset in known else len(known)
    changes = [(name, str(type(value)), value) for name, value in run_config.changes.items()]
    return place, run_config.dataset, run_config.model, run_config.seed_set, run_config.train_per_class, changes
