"""Every dropout of every model: the masks that it draws, each of which must change the output."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph

from apgcn.models.registry import MODELS
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import PackedMask, RandomStream

NODES, FEATURES, HIDDEN, CLASSES = 20, 5, 4, 3

INPUTS = [(NODES, FEATURES), (NODES, HIDDEN)]  # of two layers
EDGES = "nnz of the adjacency, self-loops included"
HEADS = 8
MASKS = {
    ("apgcn", "dropout"): INPUTS,
    ("apgcn", "edge_dropout"): [(10, EDGES)],
    ("apgcn", "z0_dropout"): [(NODES, CLASSES)],
    ("apgcn", "update_dropout"): [(10, NODES)],
    **{(name, "z0_dropout"): [(NODES, CLASSES)] for name in ("vgcn", "gcn", "ppnp", "appnp", "sgc")},
    ("ngcn", "z0_dropout"): [(20, NODES, CLASSES)],
    ("gat", "z0_dropout"): [(1, NODES, CLASSES)],
    ("arma", "z0_dropout"): [(2, NODES, CLASSES)],  # two stacks
    ("cheb", "z0_dropout"): [(4, NODES, CLASSES)],  # orders 0 to 3
    ("appnp", "update_dropout"): [(10, NODES)],
    ("vgcn", "dropout"): INPUTS,
    ("vgcn", "edge_dropout"): [(2, EDGES)],
    ("gcn", "dropout"): INPUTS,
    ("gcn", "edge_dropout"): [(2, EDGES)],  # a new mask for each layer
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
    ("mlp", "dropout"): INPUTS,
    ("sgc", "dropout"): [(NODES, FEATURES)],
    ("grand", "dropout"): [(NODES, HIDDEN)],
    ("grand", "input_dropout"): [(NODES, FEATURES)],
    ("grand", "node_dropout"): [(NODES,)],
    **{(name, "dropout"): INPUTS for name in ("dagnn", "gprgnn", "ndls")},
    **{(name, "z0_dropout"): [(NODES, CLASSES)] for name in ("dagnn", "gprgnn")},
    **{(f"ap-{step}", "dropout"): INPUTS for step in ("appnp", "arma")},
    **{(f"ap-{step}", "edge_dropout"): [(10, EDGES)] for step in ("appnp", "arma")},
    **{(f"ap-{step}", "z0_dropout"): [(NODES, CLASSES)] for step in ("appnp", "arma")},
    **{(f"ap-{step}", "update_dropout"): [(10, NODES)] for step in ("appnp", "arma")},
}

L2_PARAMETERS = {
    **{name: {"predict.first.weight"} for name in ("apgcn", "ap-appnp", "ap-arma", "appnp", "ppnp", "mlp")},
    **{name: {"w_1"} for name in ("vgcn", "gcn")},
    "ngcn": {"w", "v"},
    "gat": {"first.w"},
    "jk": {"w.0", "w.1", "w.2", "last.weight"},
    "arma": {"first.w_0", "first.v"},
    "cheb": {"first.w"},
    "sgc": {"w"},
    "dagnn": {"predict.first.weight", "predict.second.weight", "score.weight"},
    "gprgnn": {"predict.first.weight", "predict.second.weight"},
    "grand": {"first.weight", "second.weight"},
    "ndls": {"predict.first.weight", "predict.second.weight"},
}


class ScriptedStream(RandomStream):
    """A random stream that drops nothing, or one slice of one of its masks, and records the requested shapes."""

    def __init__(self, dropping: tuple[int, object] | None = None):
        super().__init__([1, 2])
        self.dropping, self.requested = dropping, []

    def packed_dropout_mask(self, *shape, rate):
        mask = torch.full((2, *shape), 1 / (1 - rate))
        if self.dropping is not None and len(self.requested) == self.dropping[0]:
            mask[:, self.dropping[1]] = 0.0
        self.requested.append(shape)
        packed = PackedMask(pack_bits(mask > 0), shape, rate)
        assert torch.equal(packed.unpack(), mask)
        return packed


def pack_bits(kept: torch.Tensor) -> torch.Tensor:
    """The random numbers of a mask at rate 0.5: value i is bit 30 - i // n of the 32-bit number i % n, of n numbers."""
    kept = kept.flatten(1).numpy()
    numbers = np.zeros((len(kept), 2 * -(-kept.shape[1] // 62)), dtype=np.uint32)
    for run, i in zip(*np.nonzero(kept), strict=True):
        numbers[run, i % numbers.shape[1]] |= np.uint32(1 << (30 - i // numbers.shape[1]))
    return torch.as_tensor(numbers.view(np.int64))


@pytest.fixture(scope="module")
def graph() -> DeviceGraph:
    return DeviceGraph.from_graph(random_graph(NODES, edges=30))


def small_config(name):
    """A model with few hidden channels, if it has any."""
    sizes = {"hidden_channels": HIDDEN} if "hidden_channels" in {field.name for field in fields(MODELS[name])} else {}
    return MODELS[name](**sizes)


def config_with_one_dropout(name, dropout):
    """The model with one dropout of 0.5 and no other."""
    config_class = MODELS[name]
    rates = {field.name: 0.0 for field in fields(config_class) if field.name.endswith("dropout")}
    return replace(small_config(name), **{**rates, dropout: 0.5})


def test_every_dropout_of_the_registry_is_tested():
    configs = MODELS.items()
    dropouts = {(name, field.name) for name, config in configs for field in fields(config) if "dropout" in field.name}
    assert dropouts == MASKS.keys()


@pytest.mark.parametrize(("name", "dropout"), MASKS)
def test_each_mask_is_drawn_and_changes_the_output(name, dropout, graph):
    model = config_with_one_dropout(name, dropout).build(graph, RandomStream([1, 2]))
    nnz, shapes = graph.adjacency.structure.nnz, MASKS[name, dropout]
    rng = ScriptedStream()
    expected = model(graph, rng).output
    assert rng.requested == [tuple(nnz if size == EDGES else size for size in shape) for shape in shapes]
    for index, shape in enumerate(shapes):
        for part in range(shape[0]) if EDGES in shape else [slice(None)]:  # every step and head has its own mask
            output = model(graph, ScriptedStream(dropping=(index, part))).output
            assert (output - expected).abs().max() > 1e-5, (shape, part)


@pytest.mark.parametrize("name", ["vgcn", "gcn", "gat", "cheb", "ppnp", "appnp", "sgc", "dagnn", "gprgnn"])
def test_without_class_scores_the_last_propagation_leaves_the_bias(name, graph):
    """What `z0_dropout` drops is all that the last propagation receives."""
    model = config_with_one_dropout(name, "z0_dropout").build(graph, RandomStream([1, 2]))
    for parameter in model.parameters():
        parameter.data += 0.1
    bias = {"vgcn": "b_2", "gcn": "b_2", "gat": "second.b", "cheb": "second.b", "sgc": "b"}.get(name)
    expected = torch.zeros(2, 1, CLASSES) if bias is None else dict(model.named_parameters())[bias]
    output = model(graph, ScriptedStream(dropping=(0, slice(None)))).output
    torch.testing.assert_close(output, expected.expand(-1, NODES, -1))


@pytest.mark.parametrize("name", L2_PARAMETERS)
def test_l2_is_on_the_weights_and_not_the_biases_of_the_first_layer_or_of_all(name, graph):
    model = small_config(name).build(graph, RandomStream([1, 2]))
    l2_parameters = set(model.l2_parameters())
    assert {key for key, parameter in model.named_parameters() if parameter in l2_parameters} == L2_PARAMETERS[name]


def test_l2_parameters_are_listed_for_every_model():
    assert L2_PARAMETERS.keys() == {name for name, config in MODELS.items() if config.has_weights}
