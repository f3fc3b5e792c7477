"""Table 4: the best penalty of each graph, the mean K with it, and what the wrong penalty costs."""

from __future__ import annotations

from apgcn.experiments import sweep
from apgcn.experiments.exhibit import Column, Exhibit, Row, Table
from apgcn.experiments.keys import Condition
from apgcn.experiments.mean import Mean
from apgcn.experiments.published import TABLE4
from apgcn.experiments.scope import Scope
from apgcn.experiments.store import Store
from apgcn.experiments.words import NOTHING, graph_title, model_title, number, plus_minus

TITLE = "the best penalty, the steps it leads to, and what the choice matters"

NOTES = (
    "The best penalty is the one with the highest mean accuracy on validation nodes; test nodes have no say in it. "
    f"Penalties tried: {', '.join(f'{penalty:g}' for penalty in sweep.PENALTIES)}.",
    "K is the mean over nodes and runs, ± the half-width of a 95 % bootstrap interval over runs; the paper does not "
    "say what its ± is.",
    "“Drop” is the highest less the lowest mean test accuracy over the penalties tried, in percentage points. All "
    "means of a graph are over the same runs.",
)


def _penalty(value: float | None) -> str:
    return NOTHING if value is None else f"{value:g}"


COLUMNS = (
    Column("graph", lambda row: graph_title(row["dataset"]), words=True),
    Column("model", lambda row: model_title(row["model"]), words=True),
    Column("runs", lambda row: str(row["runs"])),
    Column("best penalty", lambda row: _penalty(row["penalty"])),
    Column("paper", lambda row: _penalty(row["paper_penalty"])),
    Column("K there", lambda row: plus_minus(row["steps"], row["steps_interval"])),
    Column("K at the paper's penalty", lambda row: number(row["steps_at_paper"])),
    Column("paper", lambda row: plus_minus(row["paper_steps"], row["paper_steps_spread"])),
    Column("drop", lambda row: number(row["drop"])),
    Column("paper", lambda row: number(row["paper_drop"])),
    Column("verdict", lambda row: row["verdict"], words=True),
)

plan = sweep.plan


def content(store: Store, scope: Scope) -> Exhibit:
    """One line per graph on which at least two penalties were run."""
    rows: list[Row] = []
    conditions: list[Condition] = []
    for dataset in scope.datasets:
        for model in sweep.sweeping(scope.models):
            means = {
                penalty: Mean.of(records) for penalty, records in sweep.swept(store, scope, dataset, model).items()
            }
            if len(means) > 1:
                rows.append(_row(dataset, model, means))
                conditions += [Condition.of_paper(dataset, model, penalty=penalty) for penalty in means]
    return Exhibit("table4", TITLE, Table(COLUMNS, tuple(rows)), notes=NOTES, conditions=tuple(conditions))


def _row(dataset: str, model: str, means: dict[float, Mean]) -> Row:
    chosen = sweep.best(means)
    accuracies = [mean.accuracy for mean in means.values() if mean.accuracy is not None]
    paper = TABLE4.get(dataset) if model == "apgcn" else None
    at_paper = means.get(paper.penalty) if paper else None
    return {
        "dataset": dataset,
        "model": model,
        "runs": means[chosen].runs,
        "penalties": len(means),
        "penalty": chosen,
        "steps": means[chosen].steps,
        "steps_interval": means[chosen].steps_interval,
        "drop": max(accuracies) - min(accuracies),
        "steps_at_paper": at_paper and at_paper.steps,
        "paper_penalty": paper and paper.penalty,
        "paper_steps": paper and paper.steps,
        "paper_steps_spread": paper and paper.steps_spread,
        "paper_drop": paper and paper.drop,
        "verdict": _verdict(chosen, means, paper.penalty if paper else None),
    }


def _verdict(chosen: float, means: dict[float, Mean], papers: float | None) -> str:
    """Whether validation nodes would have chosen the paper's penalty."""
    partial = f"; only {len(means)} of {len(sweep.PENALTIES)} penalties" if len(means) < len(sweep.PENALTIES) else ""
    if papers is None:
        return "not in the paper" + partial
    if chosen == papers:
        return "the same penalty" + partial
    if papers not in means:
        return "the paper's penalty was not run" + partial
    behind = (means[chosen].validation_accuracy or 0.0) - (means[papers].validation_accuracy or 0.0)
    return f"another penalty; on validation nodes the paper's is {behind:.2f} behind" + partial
