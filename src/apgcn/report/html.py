"""The report of a store as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apgcn import __version__
from apgcn._utils.atomic import atomic_write, resolve_output_file
from apgcn.benchmark.artifacts import Artifact
from apgcn.benchmark.store import Store
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.report.page import render_page
from apgcn.report.plots import plotly_figure, plotly_js
from apgcn.report.sections import format_defaults, provenance

FOLDER = Path(__file__).parent


def render_report(store: Store, artifacts: Sequence[Artifact], *, title: str) -> str:
    """The report as HTML: a section for each artifact, with its plots, tables, notes and provenance."""
    figures: list[dict[str, Any]] = []
    sections = [_section(artifact, figures) for artifact in artifacts]
    body = _template().render(
        title=title,
        version=__version__,
        runs=len(store.records),
        sections=sections,
        highlights=_highlights(artifacts),
    )
    return render_page(
        FOLDER, title=title, body=body, payload={"figures": figures}, libraries=[plotly_js()] if figures else []
    )


def write_report(path: Path, store: Store, artifacts: Sequence[Artifact], *, title: str) -> None:
    """Write the report to a file, completely or not at all; an existing file is replaced."""
    path = resolve_output_file(path, option="--html", example="report.html")
    if path in store.files:
        raise InvalidInput(f"--html must not name a file of the store, but {path} is one; name another one.")
    text = render_report(store, artifacts, title=title)
    atomic_write(path, lambda file: file.write(text.encode()))


def _section(artifact: Artifact, figures: list[dict[str, Any]]) -> dict[str, Any]:
    """Values of an artifact for the template; the plots are appended to `figures`, and referred to by their index."""
    panels = [panel for panel in artifact.panels if panel.series]
    plots = [{"title": panel.title, "figure": index} for index, panel in enumerate(panels, start=len(figures))]
    figures += map(plotly_figure, panels)
    return {
        "name": artifact.name,
        "heading": artifact.heading,
        "table": artifact.table.with_runs,
        "not_run": artifact.table.without_runs,
        "notes": artifact.notes,
        "plots": plots,
        "provenance": provenance(artifact.records) if artifact.records else artifact.provenance,
        "defaults": format_defaults(artifact.records),
    }


def _highlights(artifacts: Sequence[Artifact]) -> list[dict[str, Any]]:
    """AP-GCN's rows of Tables 2 and 3 with runs, for the top of the page."""
    return [
        {**row, "cells": dict(zip(artifact.table.headings, cells, strict=True))}
        for artifact in artifacts
        if artifact.name in ("table2", "table3")
        for row, cells in zip(artifact.table.rows, artifact.table.cells, strict=True)
        if row["model"] == "apgcn" and row["runs"]
    ]


def _template() -> Any:
    """The template of the body, which escapes everything that comes from records."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackage('an HTML report needs plotly and jinja2: pip install "apgcn[report]"') from error
    loader = jinja2.FileSystemLoader(FOLDER)
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template("page.html")
