"""What does the page show? Numbers of every node and tables, computed before anything is drawn."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput, UnknownName
from apgcn.inference.bundle import SavedModel
from apgcn.inference.evaluation import judged
from apgcn.inference.halting_benchmark import Point, compare
from apgcn.inference.lazy_predictor import supports_lazy
from apgcn.inference.predictions import Predictions
from apgcn.models.apgcn import APGCNConfig
from apgcn.report.explain.layout import positions

MOST = 20_000  # nodes that a page draws
AROUND = 1_000  # of them, when it is about one
FAR = 255  # steps and more
SETS = ("", "train", "stopping", "test")


def check(saved: SavedModel, *, node: str | None = None, most: int = MOST) -> None:
    """Whether a page can be made of it, in words if not."""
    model = saved.fitted.model
    if type(model) is not APGCNConfig:
        raise InvalidInput(f"a page can be made of AP-GCN, which it recomputes, but the model is {model.title}.")
    if node is None and saved.graph.num_nodes > most:
        raise InvalidInput(
            f"a page draws at most {most:,} nodes, but the graph has {saved.graph.num_nodes:,}; name a node after "
            "--node to see the part around it."
        )
    if node is not None and node not in saved.graph.ids:
        raise UnknownName("node", node, saved.graph.ids)


def content(
    saved: SavedModel, *, node: str | None = None, most: int = MOST, curve: Sequence[Point] = ()
) -> dict[str, Any]:
    """All that the page needs, as plain JSON values; arrays are packed.

    With a node's id, of the nodes around it, as many as can be drawn. `curve` is accuracy against work.
    """
    check(saved, node=node, most=most)
    graph, fitted = saved.graph, saved.fitted
    asker = fitted.asker(graph) if supports_lazy(fitted.model) else None
    said = asker.ask() if asker else fitted.predict(graph)
    found = judged(said, graph, fitted.split)
    shown = _around(graph, node, most=most)
    whole, seeds = _listening(saved)
    heard = whole[shown][:, shown]
    neighbours = np.diff(whole.indptr)[shown] - 1
    sets = np.zeros(graph.num_nodes, dtype=np.uint8)
    for number, name in enumerate(SETS[1:], start=1):
        sets[getattr(fitted.split, name)] = number
    names = graph.ids
    place = positions(graph.adjacency[shown][:, shown])
    return {
        "name": graph.name,
        "model": fitted.model.title,
        "initialisations": fitted.initialisations,
        "temperature": fitted.temperature,
        "classes": list(fitted.class_names),
        "sets": list(SETS),
        "all_nodes": graph.num_nodes,
        "max_steps": fitted.model.max_steps,
        "around": node,
        "ids": [names[number] for number in shown],
        "x": packed(place[:, 0], np.float32),
        "y": packed(place[:, 1], np.float32),
        "prediction": packed(said.classes[shown], np.uint16),
        "probabilities": packed(said.probabilities[shown], np.float32),
        "steps": packed(said.steps[shown], np.float32),
        "label": packed(graph.labels[shown], np.int32),
        "set": packed(sets[shown], np.uint8),
        "pointers": packed(heard.indptr, np.uint32),
        "columns": packed(heard.indices, np.uint32),
        "weights": packed(heard.data, np.float32),
        "seeds": packed(seeds[shown], np.float32),
        "frozen": getattr(fitted.model, "freeze_halted", False),
        "first_steps": packed(_first_steps(saved, said)[shown], np.uint16),
        "neighbours": packed(neighbours, np.uint32),
        "complete": packed(_complete(heard, neighbours), np.uint8),
        "directed": (graph.adjacency != graph.adjacency.T).nnz > 0,
        "tables": tables(graph, said, sets),
        "work": str(compare(asker)) if asker else "",
        "curve": [point._asdict() for point in curve],
        "confusion": _confusion(graph, said, sets),
        "reliability": found["test"]["reliability"] or found["stopping"]["reliability"],
        "judged": {name: _short(found[name]) for name in ("stopping", "test")},
    }


def tables(graph: Graph, said: Predictions, sets: np.ndarray) -> list[dict[str, Any]]:
    """Steps by class, by degree and by distance to the nearest training node: means and counts."""
    degrees = np.diff(graph.adjacency.tocsc().indptr)
    distances = _distances(graph, np.flatnonzero(sets == SETS.index("train")))
    by_class = [(graph.class_names[number], said.classes == number) for number in range(graph.num_classes)]
    bounds = [0, 1, 2, 3, 5, 9, 17, 33, 65, np.inf]
    by_degree = [(_between(low, high), (degrees >= low) & (degrees < high)) for low, high in pairwise(bounds)]
    farthest = int(distances[np.isfinite(distances)].max(initial=0))
    by_distance = [(str(number), distances == number) for number in range(farthest + 1)]
    by_distance.append(("none can be reached", ~np.isfinite(distances)))
    return [
        {"title": title, "rows": [_row(name, said.steps, chosen) for name, chosen in groups if chosen.any()]}
        for title, groups in (
            ("by predicted class", by_class),
            ("by number of neighbours", by_degree),
            ("by steps to the nearest training node", by_distance),
        )
    ]


def packed(array: np.ndarray, kind: Any) -> dict[str, str]:
    """An array as text, its bytes lowest first."""
    name = np.dtype(kind).name
    raw = np.ascontiguousarray(array, dtype=np.dtype(kind).newbyteorder("<")).tobytes()
    return {"kind": name, "bytes": base64.b64encode(raw).decode("ascii")}


def _listening(saved: SavedModel) -> tuple[sparse.csr_matrix, np.ndarray]:
    """What node i hears from j in a step, and the first initialisation's seeds z^0."""
    network: Any
    network, tensors = saved.fitted.built(saved.graph)
    with torch.no_grad():
        seeds = network.predict(tensors.features, None)[0].numpy()
    matrix = tensors.adjacency.normalized
    structure = matrix.structure
    heard = sparse.csr_matrix(
        (matrix.values.numpy(), structure.straight.columns.numpy(), structure.straight.pointers.numpy()),
        shape=structure.shape,
    )
    return heard, seeds


def _first_steps(saved: SavedModel, said: Predictions) -> np.ndarray:
    """K of every node in the first initialisation, whose listening the page tells."""
    if saved.fitted.initialisations == 1:
        return said.steps
    first = {name: weight[:1] for name, weight in saved.fitted.weights.items()}
    return replace(saved.fitted, weights=first).predict(saved.graph).steps


def _complete(heard: sparse.csr_matrix, neighbours: np.ndarray) -> np.ndarray:
    """After how many steps a node can hear somebody who is not drawn: until then, what it heard is all there."""
    cut = np.flatnonzero(np.diff(heard.indptr) - 1 < neighbours)
    if not len(cut):
        return np.full(len(neighbours), FAR)
    steps = dijkstra(heard.T, indices=cut, unweighted=True, min_only=True)  # from whom a voice comes to who hears it
    return np.minimum(steps, FAR)


def _around(graph: Graph, node: str | None, *, most: int) -> np.ndarray:
    """The nodes that are drawn: all, or those nearest to one."""
    if node is None:
        return np.arange(graph.num_nodes)
    distances = _distances(graph, np.array([graph.ids.index(node)]))
    order = np.argsort(distances, kind="stable")
    return np.sort(order[np.isfinite(distances[order])][: min(most, AROUND)])


def _distances(graph: Graph, starts: np.ndarray) -> np.ndarray:
    """Steps from each node to the nearest of some, whatever the direction; infinite where there is no way."""
    if not len(starts):
        return np.full(graph.num_nodes, np.inf)
    return dijkstra(graph.adjacency, directed=False, indices=starts, unweighted=True, min_only=True)


def _confusion(graph: Graph, said: Predictions, sets: np.ndarray) -> dict[str, Any]:
    """Counts of the held-out nodes by what they are and what is said: of the test set, else of the stopping set."""
    name = "test" if (sets == SETS.index("test")).any() else "stopping"
    nodes = sets == SETS.index(name)
    classes = graph.num_classes
    counts = np.bincount(graph.labels[nodes] * classes + said.classes[nodes], minlength=classes**2)
    return {"set": name, "counts": counts.reshape(classes, classes).tolist()}


def _row(name: str, steps: np.ndarray, chosen: np.ndarray) -> dict[str, Any]:
    return {"name": name, "nodes": int(chosen.sum()), "steps": float(steps[chosen].mean())}


def _between(low: float, high: float) -> str:
    if high == low + 1:
        return f"{low:g}"
    return f"{low:g} or more" if np.isinf(high) else f"{low:g} to {high - 1:g}"


def _short(judged: dict[str, Any]) -> dict[str, Any]:
    return {name: judged[name] for name in ("nodes", "accuracy", "calibration_error")}
