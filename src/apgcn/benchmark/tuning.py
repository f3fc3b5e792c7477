"""Hyperparameter search on the validation seeds with optuna, and the table of its trials.

Splits of the validation seeds have no test nodes, so the search cannot use them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, VALIDATION, format_hyperparameters
from apgcn.benchmark.store import Store
from apgcn.training.search_space import search, searchable_hyperparameters


class Trial(NamedTuple):
    """Hyperparameters and their summary over runs. Trial 0 has the preset behind the paper's tables."""

    number: int
    run_config: RunConfig
    summary: Summary

    @property
    def score(self) -> float:
        """Mean accuracy on validation nodes, in percent."""
        return self.summary.validation_accuracy or 0.0


def tune(
    store: Store,
    dataset: str,
    model: str,
    *,
    trials: int,
    runs: int,
    run: Callable[[list[RunKey], int], None],
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> list[Trial]:
    """Evaluate the preset behind the paper's tables, then the proposals of optuna's TPE sampler; the best is first.

    The proposals follow from the seed and from the scores of the trials before. So a search that was interrupted
    repeats the same trials, finds their records in the store, and continues where it stopped.

    Parameters
    ----------
    trials : int
        Number of trials, trial 0 not counted.
    runs : int
        Number of runs on validation splits per trial; its score is their mean.
    run : function
        Called with the keys of a trial and its number; trains the runs that the store lacks (see `run_plan`).
    names : sequence of str, optional
        The hyperparameters to search; default: `searchable_hyperparameters`.
    """
    names = searchable_hyperparameters(model) if names is None else names

    def run_trial(number: int, proposal: dict[str, Any]) -> Trial:
        run_config = RunConfig.from_preset(dataset, model, seed_set="validation", **proposal)
        run(run_config.first_runs(runs), number)
        return Trial(number, run_config, Summary.from_records(store.records_for(run_config, runs)))

    return search(names, run_trial, num_trials=trials, seed=seed)


NOTES = (
    "Mean accuracy on validation nodes in percent, over runs on the validation seeds; there are no test nodes in these "
    "splits. The best of many trials is biased upwards: evaluate the chosen hyperparameters on the test seeds, once. "
    "Trials with fewer runs come last.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    ArtifactColumn("rank", lambda row: str(row["rank"])),
    RUNS,
    VALIDATION,
    STEPS,
    ArtifactColumn("changed hyperparameters", lambda row: row["hyperparameters"], is_text=True),
)


def build(store: Store, *, dataset: str | None = None, model: str | None = None) -> Artifact:
    """The trials of every graph and model, ranked by validation accuracy.

    Parameters
    ----------
    store : Store
    dataset, model : str, optional
        Only the trials of this graph or model.
    """
    records = [
        record
        for record in store.records.values()
        if record.seed_set == "validation" and dataset in (None, record.dataset) and model in (None, record.model)
    ]
    groups: dict[tuple[str, str], list[tuple[RunConfig, Summary]]] = {}
    for run_config in group_by_config(record.run_key for record in records):
        summary = Summary.from_records(store.records_for(run_config))
        groups.setdefault((run_config.dataset, run_config.model), []).append((run_config, summary))
    rows: list[Row] = []
    for trials in groups.values():
        trials.sort(key=lambda trial: (-trial[1].runs, -(trial[1].validation_accuracy or 0.0)))
        rows += [_row(rank, run_config, summary) for rank, (run_config, summary) in enumerate(trials, start=1)]
    title = "hyperparameters evaluated on the validation seeds"
    return Artifact("tuning", title, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(records))


def _row(rank: int, run_config: RunConfig, summary: Summary) -> Row:
    return {
        "dataset": run_config.dataset,
        "model": run_config.model,
        "rank": rank,
        **summary.row,
        "hyperparameters": format_hyperparameters(run_config.changes) or "none: the default preset",
    }
