"""`apgcn predict`: predictions of a trained model as a table."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from apgcn._utils.formatting import pluralize
from apgcn.cli.options import DATA, OUTPUT, AsJSON, Device, GraphFiles, GraphPath, Threads, resolve_threads_option
from apgcn.cli.progress import log_all
from apgcn.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    import numpy as np

    from apgcn.data.graph import Graph

CSV_SUFFIXES = (".csv", ".txt")
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of `apgcn fit --out`.")]


def predict(
    model_folder: ModelFolder,
    out: Annotated[Path, typer.Option(help="The table to write, .csv or .parquet.", rich_help_panel=OUTPUT)],
    node_ids: Annotated[
        str | None,
        typer.Option(
            help="Predict these nodes only: ids separated by commas; quote an id that contains a comma.",
            rich_help_panel=DATA,
        ),
    ] = None,
    edges: Annotated[
        Path | None,
        typer.Option(help="Table of edges of another graph; default: the model's own graph.", rich_help_panel=DATA),
    ] = None,
    nodes: Annotated[Path | None, typer.Option(help="Table of nodes of that graph.", rich_help_panel=DATA)] = None,
    graph_path: GraphPath = None,
    add: Annotated[
        bool,
        typer.Option("--add", help="Add these nodes and edges to the model's own graph.", rich_help_panel=DATA),
    ] = False,
    new_only: Annotated[
        bool,
        typer.Option("--new-only", help="Predict the nodes that --add adds only.", rich_help_panel=DATA),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Also write the probability of every class.", rich_help_panel=OUTPUT),
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Write ids and classes to CSV unchanged, also where a spreadsheet would evaluate them as formulas.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    device: Device = "cpu",
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Predict the class of every node: a table of id, prediction, its probability and the number of steps.

    With --node-ids only the states that these nodes depend on are computed.
    """
    import numpy as np

    from apgcn._utils.atomic import resolve_output_file
    from apgcn.inference.bundle import load_model
    from apgcn.inference.prediction_graph import graph_to_predict
    from apgcn.inference.predictions import write_predictions
    from apgcn.io.registry import FORMATS
    from apgcn.ops.devices import resolve_device

    if nodes is not None and edges is None and graph_path is None and not nodes.is_file():
        raise InvalidInput(f"--nodes must name a table, got {str(nodes)!r}; for some nodes use --node-ids {nodes}.")
    ids = None if node_ids is None else _parse_ids(node_ids)
    files = GraphFiles(edges, nodes, graph_path)
    if new_only and (not add or nodes is None or ids is not None):
        raise InvalidInput("--new-only must come with --add and --nodes, which names new nodes, without --node-ids.")
    path = resolve_output_file(out, option="--out", example="predictions.csv", protected=[model_folder, *files.paths])
    if path.suffix.lower() not in (*CSV_SUFFIXES, *FORMATS["parquet"].suffixes):
        raise InvalidInput(f"--out must name a table, .csv or .parquet, got {out}.")
    torch_device, num_threads = resolve_device(device), resolve_threads_option(threads)
    bundle = load_model(model_folder)
    if edges is not None and nodes is None and not add:
        raise InvalidInput("--edges and --nodes must be given together, or --graph.")
    if add and edges is None:
        raise InvalidInput("--add must come with --edges, and with --nodes if there are new nodes.")
    graph, notes = graph_to_predict(bundle, files.edges or files.graph, files.nodes, add=add)
    log_all(notes)
    indices = None if ids is None else _node_indices(graph, ids)
    if new_only:
        indices = np.arange(bundle.graph.num_nodes, graph.num_nodes)
        if not len(indices):
            raise InvalidInput(f"--new-only needs a row for each new node in {nodes}, which has none.")
    started = time.perf_counter()
    predictions = bundle.model.predict(graph, indices, device=torch_device, threads=num_threads)
    seconds = time.perf_counter() - started
    write_predictions(
        path, graph, predictions, bundle.model.class_names, nodes=indices, probabilities=probabilities, raw=raw
    )
    summary = {
        "nodes": len(predictions.steps),
        "steps_mean": float(predictions.steps.mean()),
        "confidence_mean": float(predictions.confidence.mean()),
        "cost": predictions.cost and predictions.cost._asdict(),
        "full_cost": predictions.full_cost and predictions.full_cost._asdict(),
        "seconds": seconds,
        "threads": num_threads if torch_device.type == "cpu" else None,
        "out": str(out),
    }
    if as_json:
        print(json.dumps(summary))
        return
    print(
        f"{pluralize(len(predictions.steps), 'node')}, confidence {100 * predictions.confidence.mean():.1f} % and "
        f"{predictions.steps.mean():.2f} steps on average: {out}"
    )
    if predictions.cost:
        print(predictions.describe_cost(seconds))


def _parse_ids(text: str) -> list[str]:
    """The ids in a list separated by commas, each of which may be quoted."""
    ids = [node_id.strip() for node_id in next(csv.reader([text], skipinitialspace=True), []) if node_id.strip()]
    if not ids:
        raise InvalidInput("--node-ids must name at least one node, got none.")
    return ids


def _node_indices(graph: Graph, ids: Sequence[str]) -> np.ndarray:
    """The indices of nodes in a graph, by their ids."""
    import numpy as np

    indices = {node_id: index for index, node_id in enumerate(graph.node_ids)}
    for node_id in ids:
        if node_id not in indices:
            raise UnknownName("node", node_id, graph.node_ids)
    return np.array([indices[node_id] for node_id in dict.fromkeys(ids)])
