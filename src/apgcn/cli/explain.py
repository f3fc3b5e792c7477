"""`apgcn explain`: a page that shows who listened how far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apgcn.cli.input_files import AS_JSON
from apgcn.cli.predict import MODEL
from apgcn.cli.progress import say
from apgcn.errors import InvalidInput

if TYPE_CHECKING:
    from apgcn.inference.halting_benchmark import Point


def explain(
    model: MODEL,
    html: Annotated[Path, typer.Option(help="The page to write.")],
    node: Annotated[str | None, typer.Option(help="The id of a node: draw the part of the graph around it.")] = None,
    penalties: Annotated[
        str | None,
        typer.Option(help="Numbers with commas between: train with each as price of a step; accuracy against work."),
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Write one page, to be opened in a browser, offline: the graph, its nodes' steps, what each heard from whom."""
    from apgcn._utils.atomic import file_to_write
    from apgcn.inference.bundle import load_model
    from apgcn.inference.halting_benchmark import curve
    from apgcn.report.explain.html import write_page
    from apgcn.report.explain.payload import check, content

    place = file_to_write(html, option="--html", example="steps.html", spare=[model])
    saved = load_model(model)
    check(saved, node=node)
    points = [] if penalties is None else curve(saved, _numbers(penalties), tell=_tell)
    shown = content(saved, node=node, curve=points)
    write_page(place, shown)
    summary = {"drawn": len(shown["ids"]), "nodes": shown["all_nodes"], "out": str(html)}
    if as_json:
        print(json.dumps(summary))
    else:
        print(f"{summary['drawn']:,} of {summary['nodes']:,} nodes on {html}")


def _numbers(typed: str) -> list[float]:
    try:
        numbers = [float(part) for part in typed.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        raise InvalidInput(f"--penalties must be numbers with commas between, got {typed!r}.")
    return list(dict.fromkeys(numbers))


def _tell(point: Point) -> None:
    messages = "" if point.messages is None else f", {100 * point.messages:.1f} % of the messages"
    say(f"penalty {point.penalty:g}: {100 * point.accuracy:.1f} % right, K {point.steps:.2f}{messages}")
