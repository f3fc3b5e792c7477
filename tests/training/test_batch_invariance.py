"""A run has the same bits alone, among other runs in any order, and with any number of threads.

`tests/training/test_cuda.py` and `tests/ops/test_dense.py` compare batches on a GPU.
"""

from dataclasses import replace

import numpy as np
import pytest
from helpers.graphs import random_graph
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from apgcn import TrainingConfig, train
from apgcn.data.splits import Split
from apgcn.models.registry import MODELS, config_class
from apgcn.training.runs import Run

SHORT = TrainingConfig(patience=4, max_epochs=12)
HIDDEN = {"hidden_channels": 8}  # of the models that have it
TRAINED = sorted(name for name, config in MODELS.items() if config.has_weights)


def make_runs(num_nodes: int, *, count: int) -> list[Run]:
    """Runs with splits and initialisations of their own, on a third of the nodes each."""
    runs = []
    for seed in range(count):
        train_nodes, stopping, test = np.array_split(np.random.default_rng(seed).permutation(num_nodes), 3)
        runs.append(
            Run(Split(train=train_nodes, stopping=stopping, test=test, seed=seed), init=seed % 2, dataset="random")
        )
    return runs


def bits(result):
    """Everything of a result that a user can read."""
    history = result.history
    arrays = [result.logits, result.steps, result.remainder, history.training_loss, history.stopping_loss]
    return [array.tobytes() for array in (*arrays, *(weight.numpy() for weight in result.weights.values()))]


@pytest.mark.parametrize("name", TRAINED)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_run_has_the_same_bits_in_any_batch(name, data):
    """Random graphs, batches and orders; runs leave the batch at different epochs."""
    nodes = data.draw(st.integers(12, 40), label="nodes")
    graph = random_graph(
        nodes, edges=data.draw(st.integers(0, 3 * nodes)), features=6, seed=data.draw(st.integers(0, 9))
    )
    if data.draw(st.booleans(), label="sparse features"):
        graph = replace(graph, features=sparse.csr_matrix(graph.features))
    config = config_class(name)()
    config = replace(config, **{key: value for key, value in HIDDEN.items() if hasattr(config, key)})
    runs = make_runs(nodes, count=5)
    order = data.draw(st.permutations(range(5)), label="order")[: data.draw(st.integers(2, 5))]
    together = train(graph, [runs[index] for index in order], config, SHORT, threads=data.draw(st.integers(1, 3)))
    for index, result in zip(order, together, strict=True):
        (alone,) = train(graph, [runs[index]], config, SHORT, threads=1)
        assert bits(alone) == bits(result)
