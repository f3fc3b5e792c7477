"""Every model with weights computes with the GPU's kernels what it computes with PyTorch, and each run on its own.

Triton's kernels are compiled where there is a GPU, and run by its interpreter where there is none.
"""

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph

from apgcn import Run, Split
from apgcn.models.registry import MODELS
from apgcn.ops import dispatch
from apgcn.ops.dense import library_products
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training.loss import NodeSet, training_loss

gpu = pytest.importorskip("apgcn.ops.kernels.gpu", exc_type=ImportError)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = [name for name, config in MODELS.items() if config.has_weights]
SMALL = {name: {"hidden_channels": 8} for name in NAMES if name != "sgc"} | {"sgc": {}}
SMALL["gat"] = {"heads": 2, "hidden_channels": 4}
SMALL["ngcn"] = {"heads": 2, "hidden_channels": 4, "max_power": 2}
if DEVICE == "cpu":  # Triton's interpreter takes a tenth of a second for some launches
    SMALL["cheb"]["order"] = 2
    for name in ("apgcn", "ap-appnp", "ap-arma", "appnp", "dagnn", "gprgnn", "grand"):
        SMALL[name]["max_steps"] = 3


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setattr(dispatch, "_load_kernels", lambda device: gpu)


def loss_and_gradients(graph, config, seeds):
    """The loss of every run in training, the logits in evaluation, and the gradients of all weights."""
    model = config.build(graph, RandomStream(seeds, device=DEVICE))
    split = Split(*np.split(np.arange(30), [9, 18, 24]), seed=0)
    nodes = NodeSet.stack([Run(split).split.train] * len(seeds), graph.labels, name="training")
    rng = RandomStream(seeds, device=DEVICE)
    rng.seek(1)
    loss = training_loss(model, model(graph, rng), nodes, l2=0.1)
    loss.sum().backward()
    results = {"loss": loss.detach(), "logits": model(graph).output.detach()}
    return results | {name: weight.grad for name, weight in model.named_parameters()}


@pytest.mark.parametrize("name", NAMES)
def test_losses_and_gradients_equal_those_of_pytorch(name):
    graph = DeviceGraph.from_graph(random_graph(30, edges=60), device=DEVICE)
    config = MODELS[name](**SMALL[name])
    results = loss_and_gradients(graph, config, [1, 2])
    with library_products():
        expected = loss_and_gradients(graph, config, [1, 2])
    for tensor, value in results.items():
        torch.testing.assert_close(
            value, expected[tensor], rtol=1e-3, atol=1e-5, msg=lambda text, tensor=tensor: f"{name}, {tensor}: {text}"
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_same_bits_alone_and_in_any_order(name):
    """All tensors of a run have multiples of 32 elements.

    PyTorch's loops on a CPU compute the last elements of a tensor, fewer than two SIMD vectors, by other functions.
    """
    graph = random_graph(32, edges=70, seed=25)  # with an isolated node
    assert graph.num_directed_edges % 32 == 0
    graph = DeviceGraph.from_graph(graph, device=DEVICE)
    config = MODELS[name](**SMALL[name])
    together = loss_and_gradients(graph, config, [1, 2, 3])
    for runs in ([0], [2, 1]):
        some = loss_and_gradients(graph, config, [[1, 2, 3][run] for run in runs])
        for tensor, value in some.items():
            assert torch.equal(value, together[tensor][runs]), f"{name}, runs {runs}: {tensor} differs"
