"""`apgcn predict`: what a trained model says of every node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apgcn.cli.watching import say
from apgcn.errors import InvalidInput

if TYPE_CHECKING:
    from apgcn.graph import Graph
    from apgcn.own.saved import SavedModel

MODEL = Annotated[Path, typer.Argument(help="The folder that `apgcn train --out` wrote.")]


def predict(
    model: MODEL,
    out: Annotated[Path, typer.Option(help="The table to write, .csv or .parquet.")],
    edges: Annotated[Path | None, typer.Option(help="Edges of another graph; without it, the model's own.")] = None,
    nodes: Annotated[Path | None, typer.Option(help="Nodes of that graph.")] = None,
    add: Annotated[bool, typer.Option("--add", help="Add these nodes and edges to the model's own graph.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write the probability of every class.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Predict the class of every node: id, prediction, its probability, and how many steps the node listened."""
    from apgcn.own.predictions import write_predictions
    from apgcn.own.saved import load_model

    saved = load_model(model)
    graph = asked_graph(saved, edges=edges, nodes=nodes, add=add)
    said = saved.fitted.predict(graph, device=device)
    write_predictions(out, graph, said, saved.fitted.class_names, probabilities=probabilities)
    summary = {
        "nodes": graph.num_nodes,
        "steps_mean": float(said.steps.mean()),
        "certainty_mean": float(said.certainty.mean()),
        "out": str(out),
    }
    if as_json:
        print(json.dumps(summary))
    else:
        certain, steps = 100 * said.certainty.mean(), said.steps.mean()
        print(f"{graph.num_nodes:,} nodes, {certain:.1f} % certain and {steps:.2f} steps on average: {out}")


def asked_graph(saved: SavedModel, *, edges: Path | None, nodes: Path | None, add: bool) -> Graph:
    """The model's own graph, another one, or its own with more nodes."""
    from apgcn.io.assembling import assemble
    from apgcn.io.extending import extend
    from apgcn.io.own import read_table

    if (edges is None) != (nodes is None):
        raise InvalidInput("--edges and --nodes must be given together, or neither.")
    if edges is None or nodes is None:
        if add:
            raise InvalidInput("--add must come with --edges and --nodes, which say what to add.")
        return saved.graph
    if saved.encoding is None or saved.reading is None:
        raise InvalidInput("the model was trained on arrays, not on tables; ask APGCNClassifier.load(folder) instead.")
    tables = read_table(edges), read_table(nodes)
    if add:
        read = extend(saved.graph, *tables, saved.reading, saved.encoding)
    else:
        names = saved.fitted.class_names
        read = assemble(*tables, saved.reading, name=saved.graph.name, encoding=saved.encoding, class_names=names)
    for note in read.notes:
        say(note)
    return read.graph
