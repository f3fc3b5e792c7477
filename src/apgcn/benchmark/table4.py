"""Table 4: the best penalty of each graph, the mean K with it, and the accuracy lost with the worst penalty."""

from __future__ import annotations

from apgcn._utils.significance import cluster_bootstrap_half_width
from apgcn.benchmark import penalty_sweep
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import Scope
from apgcn.benchmark.formatting import GRAPH, MISSING, MODEL, RUNS, VERDICT, format_number, plus_minus
from apgcn.benchmark.published import TABLE4
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

TITLE = "the best penalty, the mean K with it, and the accuracy lost with the worst penalty"

NOTES = (
    "The best penalty is the one with the highest mean accuracy on validation nodes; test nodes are not used to choose "
    f"it. Penalties: {', '.join(f'{penalty:g}' for penalty in penalty_sweep.PENALTIES)}.",
    "K is the mean over nodes and runs, ± the half-width of a 95 % bootstrap interval over runs; the paper does not "
    "define its ±.",
    "“Drop” is the highest less the lowest mean test accuracy over the penalties, in percentage points, on the same "
    "runs; ± resamples whole splits. The highest and the lowest of several means always differ a little: a drop no "
    "larger than its ± may be noise.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    RUNS,
    ArtifactColumn("best penalty", lambda row: _format_penalty(row["penalty"])),
    ArtifactColumn("paper's penalty", lambda row: _format_penalty(row["paper_penalty"])),
    ArtifactColumn("K at the best", lambda row: plus_minus(row["steps"], row["steps_interval"])),
    ArtifactColumn("K at the paper's", lambda row: format_number(row["steps_at_paper"])),
    ArtifactColumn("paper's K", lambda row: plus_minus(row["paper_steps"], row["paper_steps_spread"])),
    ArtifactColumn("drop", lambda row: plus_minus(row["drop"], row["drop_interval"])),
    ArtifactColumn("paper's drop", lambda row: format_number(row["paper_drop"])),
    ArtifactColumn("difference", lambda row: format_number(row["drop_difference"], sign=True)),
    VERDICT,
)

plan = penalty_sweep.plan


def build(store: Store, scope: Scope) -> Artifact:
    """One row per graph and model with runs for at least two penalties."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        for model in penalty_sweep.halting_models(scope.models):
            by_penalty = penalty_sweep.records_by_penalty(store, scope, dataset, model)
            if len(by_penalty) > 1:
                rows.append(_row(dataset, model, by_penalty))
                shown += [record for records in by_penalty.values() for record in records]
    return Artifact("table4", TITLE, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(shown))


def _format_penalty(penalty: float | None) -> str:
    return MISSING if penalty is None else f"{penalty:g}"


def _row(dataset: str, model: str, by_penalty: dict[float, list[Record]]) -> Row:
    summaries = {penalty: Summary.from_records(records) for penalty, records in by_penalty.items()}
    best = penalty_sweep.best_penalty(summaries)
    paper = TABLE4.get(dataset) if model == "apgcn" else None
    at_paper = summaries.get(paper.penalty) if paper else None
    drop, drop_interval = _drop(by_penalty, summaries)
    return {
        "dataset": dataset,
        "model": model,
        "penalties": len(summaries),
        "penalty": best,
        **summaries[best].row,
        "drop": drop,
        "drop_interval": drop_interval,
        "steps_at_paper": at_paper and at_paper.steps,
        "paper_penalty": paper and paper.penalty,
        "paper_steps": paper and paper.steps,
        "paper_steps_spread": paper and paper.steps_spread,
        "paper_drop": paper and paper.drop,
        "drop_difference": drop - paper.drop if paper else None,
        "verdict": _verdict(best, summaries, paper.penalty if paper else None),
    }


def _drop(by_penalty: dict[float, list[Record]], summaries: dict[float, Summary]) -> tuple[float, float | None]:
    """Highest less lowest mean accuracy, and the half-width of its interval over splits, of paired runs."""
    ranked = sorted(summaries, key=lambda penalty: summaries[penalty].accuracy or 0.0)
    lowest, highest = (
        {(record.split, record.init): 100 * (record.test_accuracy or 0.0) for record in by_penalty[penalty]}
        for penalty in (ranked[0], ranked[-1])
    )
    differences = {run: highest[run] - lowest[run] for run in highest}
    splits = [split for split, _ in differences]
    return sum(differences.values()) / len(differences), cluster_bootstrap_half_width(
        list(differences.values()), splits
    )


def _verdict(best: float, summaries: dict[float, Summary], paper_penalty: float | None) -> str:
    """Whether validation nodes choose the paper's penalty, and how many other penalties are within the interval."""
    highest, half_width = summaries[best].validation_accuracy or 0.0, summaries[best].validation_interval or 0.0
    gaps = {penalty: highest - (summary.validation_accuracy or 0.0) for penalty, summary in summaries.items()}
    level = sum(penalty != best and gap <= half_width for penalty, gap in gaps.items())
    clauses = [f"{level} other{'s' if level > 1 else ''} within its interval on validation nodes"] if level else []
    if len(summaries) < len(penalty_sweep.PENALTIES):
        clauses.append(f"only {len(summaries)} of {len(penalty_sweep.PENALTIES)} penalties were run")
    if paper_penalty is None:
        first = "not in the paper"
    elif best == paper_penalty:
        first = "the same penalty"
    elif paper_penalty in summaries:
        first = f"another penalty, the paper's is {gaps[paper_penalty]:.2f} behind on validation nodes"
    else:
        first = "the paper's penalty was not run"
    return "; ".join([first, *clauses])
