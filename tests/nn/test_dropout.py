"""What does every dropout take? Each setting is switched on alone, and each of its masks made to matter."""

from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
from helpers.graphs import random_graph

from apgcn.models.registry import MODELS
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream

NODES, FEATURES, HIDDEN, CLASSES = 20, 5, 4, 3

INPUTS = [(NODES, FEATURES), (NODES, HIDDEN)]  # of two layers
EDGES = "entries of the adjacency, a node's own included"
HEADS = 8
MASKS = {
    ("apgcn", "dropout"): INPUTS,
    ("apgcn", "edge_dropout"): [(10, EDGES)],
    ("apgcn", "z0_dropout"): [(NODES, CLASSES)],
    ("apgcn", "update_dropout"): [(10, NODES)],
    ("vgcn", "dropout"): INPUTS,
    ("vgcn", "edge_dropout"): [(2, EDGES)],
    ("gcn", "dropout"): INPUTS,
    ("gcn", "edge_dropout"): [(2, EDGES)],  # for each layer anew
    ("ngcn", "dropout"): [(NODES, FEATURES), (20, NODES, HIDDEN)],  # twenty GCNs: four heads for each of five powers
    ("gat", "dropout"): [(NODES, FEATURES), (HEADS, EDGES), (NODES, HEADS * HIDDEN), (1, EDGES)],  # attention, too
    ("jk", "dropout"): [(NODES, FEATURES), (NODES, HIDDEN), (NODES, HIDDEN), (NODES, 3 * HIDDEN)],
    ("jk", "edge_dropout"): [(3, EDGES)],
    ("ppnp", "dropout"): INPUTS,
    ("ppnp", "matrix_dropout"): [(NODES, NODES)],
    ("appnp", "dropout"): INPUTS,
    ("appnp", "edge_dropout"): [(10, EDGES)],
    ("arma", "dropout"): INPUTS,
    ("arma", "skip_dropout"): INPUTS,
    ("cheb", "dropout"): INPUTS,
    **{(f"ap-{step}", "dropout"): INPUTS for step in ("appnp", "arma")},
    **{(f"ap-{step}", "edge_dropout"): [(10, EDGES)] for step in ("appnp", "arma")},
    **{(f"ap-{step}", "z0_dropout"): [(NODES, CLASSES)] for step in ("appnp", "arma")},
    **{(f"ap-{step}", "update_dropout"): [(10, NODES)] for step in ("appnp", "arma")},
}

WHAT_L2_SHRINKS = {
    **{name: {"predict.first.weight"} for name in ("apgcn", "ap-appnp", "ap-arma", "appnp", "ppnp")},
    **{name: {"w_1"} for name in ("vgcn", "gcn")},
    "ngcn": {"w", "v"},
    "gat": {"first.w"},
    "jk": {"w.0", "w.1", "w.2", "last.weight"},
    "arma": {"first.w_0", "first.v"},
    "cheb": {"first.w"},
}


class Scripted(RandomStream):
    """Drops nothing, or all that a part of one of its masks covers; remembers what was asked for."""

    def __init__(self, dropping: tuple[int, object] | None = None):
        super().__init__([1, 2])
        self.dropping, self.asked = dropping, []

    def toss(self, *shape, rate):
        mask = torch.full((2, *shape), 1 / (1 - rate))
        if self.dropping is not None and len(self.asked) == self.dropping[0]:
            mask[:, self.dropping[1]] = 0.0
        self.asked.append(shape)
        return SimpleNamespace(shape=shape, fair=False, factor=1 / (1 - rate), factors=lambda: mask)


@pytest.fixture(scope="module")
def graph() -> DeviceGraph:
    return DeviceGraph.of(random_graph(NODES, edges=30))


def with_only(name, dropout):
    """The model with one dropout of 0.5 and no other."""
    kind = MODELS[name]
    rates = {field.name: 0.0 for field in fields(kind) if field.name.endswith("dropout")}
    return replace(kind(hidden_channels=HIDDEN), **{**rates, dropout: 0.5})


def test_every_dropout_of_the_catalogue_is_here():
    there = {(name, field.name) for name, kind in MODELS.items() for field in fields(kind) if "dropout" in field.name}
    assert there == MASKS.keys()


@pytest.mark.parametrize(("name", "dropout"), MASKS)
def test_each_mask_is_drawn_and_matters(name, dropout, graph):
    network = with_only(name, dropout).build(graph, RandomStream([1, 2]))
    nnz, shapes = graph.adjacency.structure.nnz, MASKS[name, dropout]
    rng = Scripted()
    usual = network(graph, rng).output
    assert rng.asked == [tuple(nnz if size == EDGES else size for size in shape) for shape in shapes]
    for number, shape in enumerate(shapes):
        for part in range(shape[0]) if EDGES in shape else [slice(None)]:  # every step and head has edges of its own
            found = network(graph, Scripted(dropping=(number, part))).output
            assert (found - usual).abs().max() > 1e-5, (shape, part)


@pytest.mark.parametrize("name", WHAT_L2_SHRINKS)
def test_l2_shrinks_weights_and_no_biases_of_the_first_layer_or_of_all(name, graph):
    network = MODELS[name](hidden_channels=HIDDEN).build(graph, RandomStream([1, 2]))
    l2_parameters = set(network.l2_parameters())
    assert {key for key, parameter in network.named_parameters() if parameter in l2_parameters} == WHAT_L2_SHRINKS[name]


def test_l2_is_known_of_every_model():
    assert WHAT_L2_SHRINKS.keys() == {name for name, kind in MODELS.items() if kind.has_weights}
