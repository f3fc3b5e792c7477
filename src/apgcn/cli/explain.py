"""`apgcn explain`: a page that shows who listened how far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli.given import AS_JSON
from apgcn.cli.predict import MODEL


def explain(
    model: MODEL,
    html: Annotated[Path, typer.Option(help="The page to write.")],
    node: Annotated[str | None, typer.Option(help="The id of a node: draw the part of the graph around it.")] = None,
    as_json: AS_JSON = False,
) -> None:
    """Write one page, to be opened in a browser, offline: the graph, its nodes' steps, what each heard from whom."""
    from apgcn.explain.content import content
    from apgcn.explain.page import write_page
    from apgcn.io.whole import file_to_write
    from apgcn.own.saved import load_model

    place = file_to_write(html, option="--html", example="steps.html", spare=[model])
    shown = content(load_model(model), node=node)
    write_page(place, shown)
    summary = {"drawn": len(shown["ids"]), "nodes": shown["all_nodes"], "out": str(html)}
    if as_json:
        print(json.dumps(summary))
    else:
        print(f"{summary['drawn']:,} of {summary['nodes']:,} nodes on {html}")
