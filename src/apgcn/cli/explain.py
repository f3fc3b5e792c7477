"""`apgcn explain`: a page that shows who listened how far."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apgcn.cli.predict import MODEL


def explain(
    model: MODEL,
    html: Annotated[Path, typer.Option(help="The page to write.")],
    node: Annotated[str | None, typer.Option(help="The id of a node: draw the part of the graph around it.")] = None,
) -> None:
    """Write one page, to be opened in a browser, offline: the graph, its nodes' steps, what each heard from whom."""
    from apgcn.explain.content import content
    from apgcn.explain.page import write_page
    from apgcn.io.whole import file_to_write
    from apgcn.own.saved import load_model

    place = file_to_write(html, option="--html", example="steps.html")
    shown = content(load_model(model), node=node)
    write_page(place, shown)
    print(f"{len(shown['ids']):,} of {shown['all_nodes']:,} nodes on {html}")
