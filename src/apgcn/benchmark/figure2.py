"""Figure 2: distribution of the number of propagation steps K on each graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from apgcn.benchmark import accuracy_tables
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.artifacts import Artifact, ArtifactColumn, ArtifactTable, Panel, Row, Series
from apgcn.benchmark.config import RunKey, Scope
from apgcn.benchmark.formatting import GRAPH, MODEL, RUNS, STEPS, format_number, graph_model_title
from apgcn.benchmark.penalty_sweep import halting_models
from apgcn.benchmark.published import TABLE4
from apgcn.benchmark.records import Record
from apgcn.benchmark.store import Store
from apgcn.errors import BrokenFile

GRID_POINTS = 331
MIN_BANDWIDTH = 0.15  # steps: where nearly all nodes agree, a narrower kernel would draw a spike that hides the rest

NOTES = (
    "Bars count every node in every run by its K, an integer. The line is our interpretation of the paper's “average "
    "density distribution”: a Gaussian kernel density of each node's K averaged over runs. It spreads over values that "
    f"no node has; the bandwidth is at least {MIN_BANDWIDTH} steps.",
)

COLUMNS = (
    GRAPH,
    MODEL,
    RUNS,
    STEPS,
    ArtifactColumn("paper", lambda row: format_number(row["paper_steps"])),
    ArtifactColumn("most common K", lambda row: str(row["mode"])),
    ArtifactColumn("nodes with it", lambda row: f"{100 * row['mode_fraction']:.1f} %"),
)


def plan(scope: Scope) -> list[RunKey]:
    """The runs of Tables 2 and 3 of the models whose nodes halt."""
    return accuracy_tables.plan(replace(scope, models=tuple(halting_models(scope.models))))


def build(store: Store, scope: Scope) -> Artifact:
    """One panel with the densities of all graphs, as in the paper; then a histogram and the density of each graph."""
    rows: list[Row] = []
    shown: list[Record] = []
    densities: list[Series] = []
    graph_panels: list[Panel] = []
    for dataset in scope.datasets:
        for model in halting_models(scope.models):
            records = (
                store.records_for(scope.run_config(dataset, model), scope.runs)
                if scope.includes(dataset, model)
                else []
            )
            if not records:
                continue
            shown += records
            title = graph_model_title(dataset, model)
            histogram = steps_histogram(records)
            density = steps_density(store, records, name=title)
            fraction, mode = max(zip(histogram.y, histogram.x, strict=True))
            paper = TABLE4.get(dataset) if model == "apgcn" else None
            rows.append(
                {
                    "dataset": dataset,
                    "model": model,
                    **Summary.from_records(records).row,
                    "paper_steps": paper and paper.steps,
                    "mode": mode,
                    "mode_fraction": fraction,
                }
            )
            densities.append(density)
            series = (histogram, replace(density, name="smoothed"))
            graph_panels.append(Panel(title, "K", "fraction of nodes", series, y2_title="density"))
    panels = [Panel("All graphs, smoothed", "K, averaged over runs", "density", tuple(densities)), *graph_panels]
    return Artifact(
        "figure2",
        "propagation steps per node",
        ArtifactTable(COLUMNS, tuple(rows)),
        panels=tuple(panels) if rows else (),
        notes=NOTES,
        records=tuple(shown),
    )


def steps_histogram(records: Sequence[Record], *, name: str = "counted") -> Series:
    """Fraction of nodes, over all runs, with K = 1, 2, ... steps, from 0 where nodes may take none."""
    first, last = _range_of_steps(records)
    counts = np.zeros(last + 1)
    for record in records:
        counts[record.first_step : record.first_step + len(record.steps_histogram)] += record.steps_histogram
    fractions = counts[first:] / counts.sum()
    return Series(name, tuple(range(first, last + 1)), tuple(fractions.tolist()), kind="bars")


def _range_of_steps(records: Sequence[Record]) -> tuple[int, int]:
    """The smallest and the largest K that the histograms of these records count."""
    first = min(record.first_step for record in records)
    return first, max(record.first_step + len(record.steps_histogram) for record in records) - 1


def steps_density(store: Store, records: Sequence[Record], *, name: str) -> Series:
    """Kernel density of every node's K averaged over runs, as the paper draws it.

    If the archive of the steps is damaged, the series is empty and its name tells so.
    """
    first, last = _range_of_steps(records)
    grid = np.linspace(first - 1, last + 1, GRID_POINTS)
    try:
        density = kernel_density(store.mean_steps(records), grid)
    except BrokenFile:
        return Series(f"{name} (steps are missing)", (), ())
    return Series(name, tuple(grid.round(4).tolist()), tuple(density.round(6).tolist()))


def kernel_density(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Gaussian kernel density with Scott's bandwidth, but at least `MIN_BANDWIDTH`.

    >>> kernel_density(np.array([3.0, 3.0]), np.array([3.0])).round(2)  # one Gaussian: 1 / (0.15 sqrt(2 pi))
    array([2.66])
    """
    scott = float(np.std(values, ddof=1)) * len(values) ** -0.2 if len(values) > 1 else 0.0
    bandwidth = max(MIN_BANDWIDTH, scott)
    centres, counts = np.unique(values, return_counts=True)
    kernels = np.exp(-0.5 * ((grid[:, None] - centres) / bandwidth) ** 2) / (bandwidth * np.sqrt(2 * np.pi))
    return kernels @ counts / len(values)
