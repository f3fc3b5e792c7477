"""Table 4: the best penalty of each graph, the mean K with it, and what the wrong penalty costs."""

from __future__ import annotations

from apgcn._utils.significance import split_half_width
from apgcn.benchmark import penalty_sweep
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Row
from apgcn.benchmark.config import Scope
from apgcn.benchmark.formatting import GRAPH, MODEL, NOTHING, RUNS, number, plus_minus
from apgcn.benchmark.published import TABLE4
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store

TITLE = "the best penalty, the steps it leads to, and what a wrong choice costs"

NOTES = (
    "The best penalty is the one with the highest mean accuracy on validation nodes; test nodes have no say in it. "
    f"Penalties tried: {', '.join(f'{penalty:g}' for penalty in penalty_sweep.PENALTIES)}.",
    "K is the mean over nodes and runs, ± the half-width of a 95 % bootstrap interval over runs; the paper does not "
    "say what its ± is.",
    "“Drop” is the highest less the lowest mean test accuracy over the penalties tried, in percentage points, on the "
    "same runs; ± resamples whole splits. The highest and the lowest of several means are always a little apart: a "
    "drop no larger than its ± may be nothing.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    RUNS,
    ArtifactColumn("best penalty", lambda row: _penalty(row["penalty"])),
    ArtifactColumn("paper's penalty", lambda row: _penalty(row["paper_penalty"])),
    ArtifactColumn("K at the best", lambda row: plus_minus(row["steps"], row["steps_interval"])),
    ArtifactColumn("K at the paper's", lambda row: number(row["steps_at_paper"])),
    ArtifactColumn("paper's K", lambda row: plus_minus(row["paper_steps"], row["paper_steps_spread"])),
    ArtifactColumn("drop", lambda row: plus_minus(row["drop"], row["drop_interval"])),
    ArtifactColumn("paper's drop", lambda row: number(row["paper_drop"])),
    ArtifactColumn("difference", lambda row: number(row["drop_difference"], sign=True)),
    ArtifactColumn("verdict", lambda row: row["verdict"], words=True),
)

plan = penalty_sweep.plan


def content(store: Store, scope: Scope) -> Artifact:
    """One line per graph on which at least two penalties were run."""
    rows: list[Row] = []
    shown: list[Record] = []
    for dataset in scope.datasets:
        for model in penalty_sweep.sweeping(scope.models):
            found = penalty_sweep.swept(store, scope, dataset, model)
            if len(found) > 1:
                rows.append(_row(dataset, model, found))
                shown += [record for records in found.values() for record in records]
    return Artifact("table4", TITLE, ArtifactTable(COLUMNS, tuple(rows)), notes=NOTES, records=tuple(shown))


def _penalty(value: float | None) -> str:
    return NOTHING if value is None else f"{value:g}"


def _row(dataset: str, model: str, found: dict[float, list[Record]]) -> Row:
    means = {penalty: Summary.of(records) for penalty, records in found.items()}
    chosen = penalty_sweep.best(means)
    paper = TABLE4.get(dataset) if model == "apgcn" else None
    at_paper = means.get(paper.penalty) if paper else None
    drop, drop_interval = _drop(found, means)
    return {
        "dataset": dataset,
        "model": model,
        "penalties": len(means),
        "penalty": chosen,
        **means[chosen].row,
        "drop": drop,
        "drop_interval": drop_interval,
        "steps_at_paper": at_paper and at_paper.steps,
        "paper_penalty": paper and paper.penalty,
        "paper_steps": paper and paper.steps,
        "paper_steps_spread": paper and paper.steps_spread,
        "paper_drop": paper and paper.drop,
        "drop_difference": drop - paper.drop if paper else None,
        "verdict": _verdict(chosen, means, paper.penalty if paper else None),
    }


def _drop(found: dict[float, list[Record]], means: dict[float, Summary]) -> tuple[float, float | None]:
    """The highest less the lowest mean, and the half-width of its interval over splits, run paired with run."""
    ranked = sorted(means, key=lambda penalty: means[penalty].accuracy or 0.0)
    low, high = (
        {(record.split, record.init): 100 * (record.test_accuracy or 0.0) for record in found[penalty]}
        for penalty in (ranked[0], ranked[-1])
    )
    differences = {run: high[run] - low[run] for run in high}
    splits = [split for split, _ in differences]
    return sum(differences.values()) / len(differences), split_half_width(list(differences.values()), splits)


def _verdict(chosen: float, means: dict[float, Summary], papers: float | None) -> str:
    """Whether validation nodes would have chosen the paper's penalty, and how sure they are."""
    best, width = means[chosen].validation_accuracy or 0.0, means[chosen].validation_interval or 0.0
    behind = {penalty: best - (mean.validation_accuracy or 0.0) for penalty, mean in means.items()}
    level = sum(penalty != chosen and less <= width for penalty, less in behind.items())
    words = [f"{level} other{'s' if level > 1 else ''} within its interval on validation nodes"] if level else []
    if len(means) < len(penalty_sweep.PENALTIES):
        words.append(f"only {len(means)} of {len(penalty_sweep.PENALTIES)} penalties were run")
    if papers is None:
        words.insert(0, "not in the paper")
    elif chosen == papers:
        words.insert(0, "the same penalty")
    elif papers in means:
        words.insert(0, f"another penalty, the paper's is {behind[papers]:.2f} behind on validation nodes")
    else:
        words.insert(0, "the paper's penalty was not run")
    return "; ".join(words)
