"""One page to look at: a file that holds all it needs and asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apgcn import __version__
from apgcn._utils.atomic import file_to_write, write_whole
from apgcn.benchmark.artifacts import Artifact
from apgcn.benchmark.store import Store
from apgcn.errors import InvalidInput, MissingPackage
from apgcn.report.plots import drawn, plotly_script
from apgcn.report.provenance import behind, usual_settings

HERE = Path(__file__).parent


def page(store: Store, artifacts: Sequence[Artifact], *, title: str) -> str:
    """The page as HTML. All that comes from records is escaped."""
    shown = [_section(artifact) for artifact in artifacts]
    figures = [panel.pop("figure") for section in shown for panel in section["panels"]]
    for number, panel in enumerate(panel for section in shown for panel in section["panels"]):
        panel["number"] = number
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            version=__version__,
            runs=len(store.records),
            sections=shown,
            glance=_glance(artifacts),
            style=_markup((HERE / "page.css").read_text(encoding="utf-8")),
            script=_markup((HERE / "page.js").read_text(encoding="utf-8")),
            plotly=_markup(plotly_script() if figures else ""),
            figures=_markup(_json(figures)),
        )
    )


def write_page(path: Path, store: Store, artifacts: Sequence[Artifact], *, title: str) -> None:
    """Write the page whole or not at all; a page that is there is replaced."""
    path = file_to_write(path, option="--html", example="report.html")
    if path in store.files:
        raise InvalidInput(f"--html must not name a file of the store, but {path} is one; name another one.")
    text = page(store, artifacts, title=title)
    write_whole(path, lambda file: file.write(text.encode()))


def _section(artifact: Artifact) -> dict[str, Any]:
    run, not_run = artifact.table.divided()
    return {
        "name": artifact.name,
        "heading": artifact.heading,
        "table": run,
        "not_run": not_run,
        "notes": artifact.notes,
        "panels": [{"title": panel.title, "figure": drawn(panel)} for panel in artifact.panels if panel.series],
        "behind": behind(artifact.records) if artifact.records else artifact.origin,
        "usual": usual_settings(artifact.records),
    }


def _glance(artifacts: Sequence[Artifact]) -> list[dict[str, Any]]:
    """AP-GCN on every graph, in a few words, for the top of the page."""
    return [
        {**row, "cells": dict(zip(artifact.table.headings, cells, strict=True))}
        for artifact in artifacts
        if artifact.name in ("table2", "table3")
        for row, cells in zip(artifact.table.rows, artifact.table.cells, strict=True)
        if row["model"] == "apgcn" and row["runs"]
    ]


def _json(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackage('an HTML report needs plotly and jinja2: pip install "apgcn[report]"') from error
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def _markup(text: str) -> Any:
    """Text of ours that is code, not to be escaped."""
    from markupsafe import Markup

    return Markup(text)
