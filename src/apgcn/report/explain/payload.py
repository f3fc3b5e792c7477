"""Payload of the page about a trained model: arrays of every node and tables, as JSON values."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, UnknownName
from apgcn.inference.bundle import ModelBundle
from apgcn.inference.evaluation import evaluate_split
from apgcn.inference.halting_benchmark import PenaltyPoint
from apgcn.inference.predictions import Predictions
from apgcn.models.apgcn import APGCNConfig
from apgcn.report.explain.layout import node_positions

MAX_NODES = 20_000  # that a page draws
MAX_NEIGHBOURHOOD = 1_000  # nodes, if the page is about one of them
MAX_EXACT_STEPS = 255  # of an unsigned byte; models have fewer steps
SETS = ("", "train", "stopping", "test", "validation")


def check_explainable(bundle: ModelBundle, *, node: str | None = None, max_nodes: int = MAX_NODES) -> None:
    """Raise if the model is not AP-GCN alone, if the graph is too large to draw, or if the node does not exist."""
    config, graph = bundle.model.config, bundle.graph
    if type(config) is not APGCNConfig:
        raise InvalidInput(
            f"the model must be AP-GCN, whose propagation the page computes again, but it is {config.title}."
        )
    if bundle.model.uses_known_labels:
        raise InvalidInput(
            f"the model must predict by propagation alone, which the page computes again, but it is "
            f"{bundle.model.title}; fit it without --correct-and-smooth."
        )
    if node is None and graph.num_nodes > max_nodes:
        raise InvalidInput(
            f"a page draws at most {max_nodes:,} nodes, but the graph has {graph.num_nodes:,}; name a node with --node "
            "to draw the part of the graph around it."
        )
    if node is not None and node not in graph.node_ids:
        raise UnknownName("node", node, graph.node_ids)


def build_payload(
    bundle: ModelBundle,
    *,
    node: str | None = None,
    max_nodes: int = MAX_NODES,
    curve: Sequence[PenaltyPoint] = (),
) -> dict[str, Any]:
    """Everything that the page shows, as JSON values; arrays are encoded as base64.

    Parameters
    ----------
    bundle : ModelBundle
    node : str, optional
        Id of a node: draw the nodes around it only.
    max_nodes : int
    curve : sequence of PenaltyPoint
        Accuracy against cost, of models trained with other penalties.
    """
    check_explainable(bundle, node=node, max_nodes=max_nodes)
    graph, model = bundle.graph, bundle.model
    start = time.perf_counter()
    predictions = model.predict(graph, minimize="operations")
    seconds = time.perf_counter() - start
    evaluation = evaluate_split(predictions, graph, model.split)
    drawn = _drawn_nodes(graph, node, max_nodes=max_nodes)
    full_adjacency, z0 = _propagation_inputs(bundle)
    adjacency = full_adjacency[drawn][:, drawn]
    in_degrees = np.diff(full_adjacency.indptr)[drawn] - 1
    sets = np.zeros(graph.num_nodes, dtype=np.uint8)
    for number, name in enumerate(SETS[1:], start=1):
        sets[getattr(model.split, name)] = number
    ids = graph.node_ids
    positions = node_positions(graph.adjacency[drawn][:, drawn])
    return {
        "name": graph.name,
        "model": model.config.title,
        "ensemble_size": model.ensemble_size,
        "temperature": model.temperature,
        "classes": list(model.class_names),
        "set_names": list(SETS),
        "num_nodes": graph.num_nodes,
        "first_step": model.config.first_step,
        "max_steps": model.config.max_steps,
        "center": node,
        "ids": [ids[number] for number in drawn],
        "x": encode_array(positions[:, 0], np.float32),
        "y": encode_array(positions[:, 1], np.float32),
        "prediction": encode_array(predictions.classes[drawn], np.uint16),
        "probabilities": encode_array(predictions.probabilities[drawn], np.float32),
        "steps": encode_array(predictions.steps[drawn], np.float32),
        "label": encode_array(graph.labels[drawn], np.int32),
        "set": encode_array(sets[drawn], np.uint8),
        "indptr": encode_array(adjacency.indptr, np.uint32),
        "indices": encode_array(adjacency.indices, np.uint32),
        "weights": encode_array(adjacency.data, np.float32),
        "z0": encode_array(z0[drawn], np.float32),
        "freeze_halted": getattr(model.config, "freeze_halted", False),
        "first_member_steps": encode_array(_first_member_steps(bundle, predictions)[drawn], np.uint16),
        "in_degrees": encode_array(in_degrees, np.uint32),
        "exact_steps": encode_array(_exact_steps(adjacency, in_degrees), np.uint8),
        "directed": (graph.adjacency != graph.adjacency.T).nnz > 0,
        "tables": steps_tables(graph, predictions, sets),
        "cost": predictions.describe_cost(seconds),
        "curve": [point._asdict() for point in curve],
        "confusion": _confusion(graph, predictions, sets),
        "reliability": evaluation["test"]["reliability"] or evaluation["stopping"]["reliability"],
        "evaluation": {
            set_name: {name: evaluation[set_name][name] for name in ("nodes", "accuracy", "calibration_error")}
            for set_name in ("stopping", "test")
        },
    }


def steps_tables(graph: Graph, predictions: Predictions, sets: np.ndarray) -> list[dict[str, Any]]:
    """Mean K and number of nodes by predicted class, by in-degree and by distance to the nearest training node."""
    in_degrees = np.diff(graph.adjacency.tocsc().indptr)
    distances = _distances(graph, np.flatnonzero(sets == SETS.index("train")))
    by_class = [(graph.class_names[number], predictions.classes == number) for number in range(graph.num_classes)]
    bounds = [0, 1, 2, 3, 5, 9, 17, 33, 65, np.inf]
    by_degree = [
        (_format_range(low, high), (in_degrees >= low) & (in_degrees < high)) for low, high in pairwise(bounds)
    ]
    max_distance = int(distances[np.isfinite(distances)].max(initial=0))
    by_distance = [(str(distance), distances == distance) for distance in range(max_distance + 1)]
    by_distance.append(("unreachable", ~np.isfinite(distances)))
    return [
        {"title": title, "rows": [_steps_row(name, predictions.steps, nodes) for name, nodes in groups if nodes.any()]}
        for title, groups in (
            ("by predicted class", by_class),
            ("by number of in-neighbours", by_degree),
            ("by distance to the nearest training node", by_distance),
        )
    ]


def encode_array(array: np.ndarray, dtype: Any) -> dict[str, str]:
    """Little-endian bytes of an array in base64, with the name of its dtype."""
    data = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
    return {"dtype": np.dtype(dtype).name, "data": base64.b64encode(data).decode("ascii")}


def _propagation_inputs(bundle: ModelBundle) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Normalised adjacency with self-loops, (nodes, nodes), and z^0 of the first ensemble member, (nodes, classes)."""
    model: Any
    model, device_graph = bundle.model.build(bundle.graph)
    with torch.no_grad():
        z0 = model.predict(device_graph.features, None)[0].numpy()
    matrix = device_graph.adjacency.normalized
    csr = matrix.structure.csr
    arrays = (matrix.values.numpy(), csr.indices.numpy(), csr.indptr.numpy())
    return sparse.csr_matrix(arrays, shape=matrix.structure.shape), z0


def _first_member_steps(bundle: ModelBundle, predictions: Predictions) -> np.ndarray:
    """K of every node in the first ensemble member, whose propagation the page shows step by step."""
    model = bundle.model
    return predictions.steps if model.ensemble_size == 1 else model.member(0).predict(bundle.graph).steps


def _exact_steps(adjacency: sparse.csr_matrix, in_degrees: np.ndarray) -> np.ndarray:
    """Number of steps after which the state of a drawn node depends on drawn nodes only, (drawn nodes,)."""
    incomplete = np.flatnonzero(np.diff(adjacency.indptr) - 1 < in_degrees)
    if not len(incomplete):
        return np.full(len(in_degrees), MAX_EXACT_STEPS)
    distances = dijkstra(adjacency.T, indices=incomplete, unweighted=True, min_only=True)  # from source to target
    return np.minimum(distances, MAX_EXACT_STEPS)


def _drawn_nodes(graph: Graph, node: str | None, *, max_nodes: int) -> np.ndarray:
    """Indices of the nodes to draw: all, or those nearest to one node."""
    if node is None:
        return np.arange(graph.num_nodes)
    distances = _distances(graph, np.array([graph.node_ids.index(node)]))
    order = np.argsort(distances, kind="stable")
    return np.sort(order[np.isfinite(distances[order])][: min(max_nodes, MAX_NEIGHBOURHOOD)])


def _distances(graph: Graph, sources: np.ndarray) -> np.ndarray:
    """Number of edges, of any direction, from each node to the nearest source; infinite if there is no path."""
    if not len(sources):
        return np.full(graph.num_nodes, np.inf)
    return dijkstra(graph.adjacency, directed=False, indices=sources, unweighted=True, min_only=True)


def _confusion(graph: Graph, predictions: Predictions, sets: np.ndarray) -> dict[str, Any]:
    """Confusion matrix of the test set, or of the stopping set if there is no test set; rows are the labels."""
    name = "test" if (sets == SETS.index("test")).any() else "stopping"
    nodes = sets == SETS.index(name)
    classes = graph.num_classes
    counts = np.bincount(graph.labels[nodes] * classes + predictions.classes[nodes], minlength=classes**2)
    return {"set": name, "counts": counts.reshape(classes, classes).tolist()}


def _steps_row(name: str, steps: np.ndarray, nodes: np.ndarray) -> dict[str, Any]:
    return {"name": name, "nodes": int(nodes.sum()), "steps": float(steps[nodes].mean())}


def _format_range(low: float, high: float) -> str:
    if high == low + 1:
        return f"{low:g}"
    return f"{low:g} or more" if np.isinf(high) else f"{low:g} to {high - 1:g}"
