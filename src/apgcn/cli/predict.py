"""`apgcn predict`: what a trained model says of every node."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apgcn._utils.formatting import counted
from apgcn.cli.input_files import AS_JSON, GRAPH, Files, say_all
from apgcn.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    import numpy as np

    from apgcn.data.graph import Graph
    from apgcn.inference.bundle import SavedModel

PREDICTIONS = (".csv", ".txt")
MODEL = Annotated[Path, typer.Argument(help="The folder that `apgcn train --out` wrote of one's own graph.")]


def predict(
    model: MODEL,
    out: Annotated[Path, typer.Option(help="The table to write, .csv or .parquet.")],
    edges: Annotated[Path | None, typer.Option(help="Edges of another graph; without it, the model's own.")] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="With --edges the table of nodes of that graph; without it, ids with commas between, to be asked for "
            "alone; quote an id that has a comma."
        ),
    ] = None,
    graph: GRAPH = None,
    add: Annotated[bool, typer.Option("--add", help="Add these nodes and edges to the model's own graph.")] = False,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Also write the probability of every class.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    as_json: AS_JSON = False,
) -> None:
    """Predict the class of every node: id, prediction, its probability, and how many steps the node listened.

    With --nodes a,b,c and no --edges it answers for these nodes alone, and computes only what they can hear.
    """
    from apgcn._utils.atomic import file_to_write
    from apgcn.inference.bundle import load_model
    from apgcn.inference.halting_benchmark import compare
    from apgcn.inference.lazy_predictor import supports_lazy
    from apgcn.inference.predictions import write_predictions
    from apgcn.io.registry import PARQUET
    from apgcn.ops.devices import resolve

    wanted = _names(nodes) if edges is None else None
    files = Files(edges, Path(nodes) if nodes and edges is not None else None, graph)
    place = file_to_write(out, option="--out", example="predictions.csv", spare=[model, *files.all])
    if place.suffix.lower() not in (*PREDICTIONS, *PARQUET):
        raise InvalidInput(f"--out must name a table, .csv or .parquet, got {out}.")
    saved = load_model(model)
    asked = asked_graph(saved, files, add=add)
    numbers = None if wanted is None else _numbers_of(asked, wanted)
    asker = saved.fitted.asker(asked) if resolve(device).type == "cpu" and supports_lazy(saved.fitted.model) else None
    started = time.perf_counter()
    said = asker.ask(numbers) if asker else saved.fitted.predict(asked, numbers, device=device)
    seconds = time.perf_counter() - started
    write_predictions(place, asked, said, saved.fitted.class_names, nodes=numbers, probabilities=probabilities)
    compared = compare(asker, rounds=1) if asker and numbers is None else None
    summary = {
        "nodes": len(said.steps),
        "steps_mean": float(said.steps.mean()),
        "certainty_mean": float(said.confidence.mean()),
        "work": said.work and said.work._asdict(),
        "work_of_all_steps": said.fixed and said.fixed._asdict(),
        "seconds": seconds,
        "propagation_seconds": compared and compared.seconds,
        "listening_seconds_of_all_steps": compared and compared.fixed_seconds,
        "out": str(out),
    }
    if as_json:
        print(json.dumps(summary))
    else:
        certain, steps = 100 * said.confidence.mean(), said.steps.mean()
        print(f"{counted(len(said.steps), 'node')}, {certain:.1f} % certain and {steps:.2f} steps on average: {out}")
        if said.work and said.fixed:
            print(compared or f"{said.work.beside(said.fixed)}; {1000 * seconds:.1f} ms with z^0")


def _numbers_of(graph: Graph, wanted: Sequence[str]) -> np.ndarray:
    """Where nodes are in a graph, by their ids."""
    import numpy as np

    places = {name: number for number, name in enumerate(graph.ids)}
    for name in wanted:
        if name not in places:
            raise UnknownName("node", name, graph.ids)
    return np.array([places[name] for name in dict.fromkeys(wanted)])


def _names(typed: str | None) -> list[str] | None:
    if typed is None:
        return None
    if Path(typed).suffix and Path(typed).is_file():
        raise InvalidInput(f"--nodes must come with --edges when it names a table, got {typed} alone.")
    names = [name.strip() for name in next(csv.reader([typed], skipinitialspace=True), []) if name.strip()]
    if not names:
        raise InvalidInput("--nodes must name at least one node, got none.")
    return names


def asked_graph(saved: SavedModel, files: Files, *, add: bool) -> Graph:
    """The model's own graph, another one, or its own with more nodes."""
    from apgcn.io.build_graph import TableSchema, extend
    from apgcn.io.registry import read_table

    if add and files.edges is None:
        raise InvalidInput(
            "--add must come with --edges, and with --nodes if there are new ones, which say what to add."
        )
    if not files.given:
        return saved.graph
    if saved.encoding is None and not files.arrays:
        raise InvalidInput(
            "the model was trained on arrays, which have no columns; give --graph with an .npz, or ask "
            "APGCNClassifier.load(folder)."
        )
    if saved.encoding is not None and files.arrays:
        raise InvalidInput("the model was trained on columns, which an .npz has not; give tables or a .graphml.")
    schema = saved.schema or TableSchema()
    if files.graph is not None:  # which says itself what its nodes and ends are
        schema = replace(schema, id=None, source=None, target=None)
    if add and files.edges is not None and saved.encoding is not None:
        new = None if files.nodes is None else read_table(files.nodes)
        read = extend(saved.graph, read_table(files.edges), new, schema, saved.encoding)
        say_all(read.notes)
        return read.graph
    return files.read(schema, encoding=saved.encoding, class_names=saved.fitted.class_names).graph
