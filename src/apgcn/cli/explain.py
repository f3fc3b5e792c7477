"""`apgcn explain`: a page that shows the graph and the number of steps of each node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apgcn.cli.options import OUTPUT, AsJSON, Threads, resolve_threads_option
from apgcn.cli.predict import ModelFolder
from apgcn.cli.progress import log
from apgcn.errors import InvalidInput

if TYPE_CHECKING:
    from apgcn.inference.halting_benchmark import PenaltyPoint


def explain(
    model_folder: ModelFolder,
    html: Annotated[Path, typer.Option(help="The page to write.", rich_help_panel=OUTPUT)],
    node: Annotated[str | None, typer.Option(help="The id of a node: draw the part of the graph around it.")] = None,
    penalties: Annotated[
        str | None,
        typer.Option(
            help="Numbers separated by commas: train with each penalty; plot accuracy on stopping nodes against cost."
        ),
    ] = None,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Write a page for the browser, offline: the graph, the steps of its nodes, and what each node received."""
    from apgcn._utils.atomic import resolve_output_file
    from apgcn.inference.bundle import load_model
    from apgcn.inference.halting_benchmark import penalty_curve
    from apgcn.ops.threads import kernel_threads
    from apgcn.report.explain.html import PAGE_SUFFIXES, write_explanation
    from apgcn.report.explain.payload import build_payload, check_explainable

    path = resolve_output_file(
        html, option="--html", example="steps.html", protected=[model_folder], suffixes=PAGE_SUFFIXES
    )
    num_threads = resolve_threads_option(threads)
    bundle = load_model(model_folder)
    check_explainable(bundle, node=node)
    with kernel_threads(num_threads):
        points = [] if penalties is None else penalty_curve(bundle, _parse_penalties(penalties), callback=_log_point)
        payload = build_payload(bundle, node=node, curve=points)
    write_explanation(path, payload)
    summary = {"drawn": len(payload["ids"]), "nodes": payload["num_nodes"], "out": str(html)}
    if as_json:
        print(json.dumps(summary))
    else:
        print(f"{summary['drawn']:,} of {summary['nodes']:,} nodes on {html}")


def _parse_penalties(text: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        raise InvalidInput(f"--penalties must be numbers separated by commas, got {text!r}.")
    return list(dict.fromkeys(values))


def _log_point(point: PenaltyPoint) -> None:
    messages = "" if point.messages is None else f", {100 * point.messages:.1f} % of the messages"
    accuracy = f"accuracy {100 * point.accuracy:.1f} % on stopping nodes"
    log(f"penalty {point.penalty:g}: {accuracy}, steps K {point.steps:.2f}{messages}")
