"""Every implementation of the halting rule against one loop over nodes in double precision.

docs/halting_implementations.md lists the implementations. All run on the same directed, weighted graph, which has a
hub, a self-loop, a node without in-neighbours and an isolated node. Gradients are compared in
`tests/ops/test_kernels.py` and `tests/nn/test_halting.py`.
"""

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn import APGCNConfig, Graph, TrainingConfig
from apgcn.data.splits import Split
from apgcn.distributed.graph_shard import shard_graph
from apgcn.distributed.halo import HaloExchange, ShardedAdjacency
from apgcn.inference.lazy_predictor import supports_lazy
from apgcn.inference.lazy_propagation import LazyGraph, LazyModel, lazy_propagate
from apgcn.inference.onnx import EnsembleModule, write_onnx
from apgcn.inference.trained_model import TrainedModel
from apgcn.nn import AdaptivePropagation, APGCNConv, NormalizedAdjacency, halting
from apgcn.ops import dispatch
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import reference_kernels
from apgcn.ops.kernels.autograd import HaltingParameters
from apgcn.ops.rng import RandomStream

NODES, CHANNELS = 24, 3
HUB, LOOPED, SOURCE, ISOLATED = 0, 3, 5, 7
SOME_NODES = np.array([HUB, ISOLATED, 11, 2])

CASES = [
    pytest.param(
        max_steps,
        epsilon,
        freeze,
        min_steps,
        id=f"T={max_steps}-epsilon={epsilon}-{'frozen' if freeze else 'unfrozen'}-min_steps={min_steps}",
    )
    for max_steps, epsilon, min_steps in (
        *((max_steps, epsilon, 1) for max_steps in (1, 3, 8) for epsilon in (0.01, 0.3)),
        *((1, 0.01, 0), (8, 0.01, 0), (3, 0.3, 0), (8, 0.01, 2), (3, 0.3, 2), (3, 0.01, 3)),
    )
    for freeze in (False, True)
]


class Problem(NamedTuple):
    """A graph, the initial prediction z^0, the halting unit (Q, q), and the parameters of the halting rule."""

    adjacency: sparse.csr_matrix  # entry (i, j) is the edge from i to j
    z0: np.ndarray
    halting_weight: np.ndarray
    halting_bias: float
    max_steps: int
    epsilon: float
    freeze: bool
    min_steps: int = 1
    initial_halting_weight: np.ndarray = np.array([-0.8, 1.2, 0.5], np.float32)  # Q^0, with min_steps = 0
    initial_halting_bias: float = 2.5

    def unit(self, step: int) -> tuple[np.ndarray, float]:
        """Weight and bias of the halting unit of a step."""
        if step == 0:
            return self.initial_halting_weight, self.initial_halting_bias
        return self.halting_weight, self.halting_bias

    def units(self, module) -> list[tuple[np.ndarray, float, torch.nn.Module]]:
        """Weight, bias and layer of each halting unit of a module."""
        units = [(*self.unit(1), module.halting_unit)]
        return [*units, (*self.unit(0), module.initial_halting_unit)] if self.min_steps == 0 else units


class Result(NamedTuple):
    """Output (nodes, channels) or its softmax, steps and, where it is returned, remainder, of some nodes."""

    output: np.ndarray
    steps: np.ndarray
    remainder: np.ndarray | None
    nodes: np.ndarray = np.arange(NODES)
    is_softmax: bool = False


def make_problem(max_steps: int, epsilon: float, freeze: bool, min_steps: int = 1) -> Problem:
    rng = np.random.default_rng(0)
    matrix = sparse.random(NODES, NODES, density=0.12, random_state=rng, format="lil")
    matrix[:, HUB], matrix[HUB] = rng.random((NODES, 1)), rng.random(NODES)
    matrix[LOOPED, LOOPED] = 2.0
    matrix[:, SOURCE] = 0  # only out-edges
    matrix[ISOLATED], matrix[:, ISOLATED] = 0, 0
    z0 = (2 * rng.standard_normal((NODES, CHANNELS))).astype(np.float32)
    halting_weight = np.array([0.9, 0.7, 1.1], np.float32)
    halting_bias = -1.0 if min_steps <= 1 else 4.0  # some nodes could halt before they may
    return Problem(
        matrix.tocsr().astype(np.float32), z0, halting_weight, halting_bias, max_steps, epsilon, freeze, min_steps
    )


def reference(problem: Problem) -> Result:
    """Adaptive propagation in a loop over steps and nodes, in double precision."""
    weights = problem.adjacency.toarray().astype(np.float64).T  # row i: the in-neighbours of i
    np.fill_diagonal(weights, 1)
    scale = 1 / np.sqrt(weights.sum(1))
    a = scale[:, None] * weights * scale
    z = [problem.z0.astype(np.float64)]
    cumulative = np.zeros(NODES)
    steps, remainder = np.full(NODES, -1), np.ones(NODES)
    total = np.zeros((NODES, CHANNELS))
    for k in range(min(problem.min_steps, 1), problem.max_steps + 1):
        new = z[0].copy() if k == 0 else a @ z[-1]
        for node in range(NODES):
            if steps[node] >= 0:
                if problem.freeze:
                    new[node] = z[-1][node]
                continue
            weight, bias = problem.unit(k)
            h = 1 / (1 + np.exp(-(new[node] @ weight + bias)))
            cumulative[node] += h
            assert abs(cumulative[node] - (1 - problem.epsilon)) > 1e-4, "K would depend on rounding"
            may_halt = k >= problem.min_steps and cumulative[node] >= 1 - problem.epsilon
            halts = k == problem.max_steps or may_halt
            if problem.min_steps == 0:
                total[node] += (remainder[node] if halts else h) * new[node]
            else:
                p = remainder[node] if halts else min(1, cumulative[node])
                total[node] += p * new[node] + (1 - p) * z[-1][node]
            if halts:
                steps[node] = k
            else:
                remainder[node] = max(0, 1 - cumulative[node])
        if k > 0:
            z.append(new)
    output = total if problem.min_steps == 0 else total / steps[:, None]
    return Result(output, steps, remainder)


def states(problem: Problem, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """z^0, ..., z^T (T + 1, nodes, channels) and h^1, ..., h^T (T, nodes), in PyTorch."""
    a = Adjacency(problem.adjacency, device="cpu", dtype=dtype).normalized.to_dense()
    (q0, bias0), (q, bias) = ((torch.as_tensor(problem.unit(k)[0], dtype=dtype), problem.unit(k)[1]) for k in (0, 1))
    z = [torch.as_tensor(problem.z0, dtype=dtype)]
    h = [torch.sigmoid(z[0] @ q0 + bias0)] if problem.min_steps == 0 else []
    for k in range(1, problem.max_steps + 1):
        new = a @ z[-1]
        if problem.freeze and h and k > problem.min_steps:
            halted = torch.stack(h).sum(0) >= 1 - problem.epsilon
            new = torch.where(halted[:, None], z[-1], new)
        z.append(new)
        h.append(torch.sigmoid(new @ q + bias))
    return torch.stack(z), torch.stack(h)


def halting_functions(problem: Problem) -> Result:
    z, h = states(problem, torch.float64)
    minimum = {"min_steps": problem.min_steps}
    steps = halting.halting_steps(h, epsilon=problem.epsilon, **minimum)
    remainder = halting.remainders(h, steps, **minimum)
    output = halting.combine(z, halting.step_weights(h, steps, remainder, **minimum), steps, **minimum)
    return Result(output.numpy(), steps.numpy(), remainder.numpy())


def adaptive_propagation(problem: Problem, adjacency: Adjacency, nodes: np.ndarray | None = None) -> list[np.ndarray]:
    """Output, steps and remainder of the rows of an adjacency; z^0 and `nodes` must be of these rows."""
    layer = AdaptivePropagation(
        NormalizedAdjacency(edge_dropout=0.0),
        channels=CHANNELS,
        rng=RandomStream([0], device=adjacency.weights.device),
        max_steps=problem.max_steps,
        min_steps=problem.min_steps,
        epsilon=problem.epsilon,
        freeze_halted=problem.freeze,
    ).to(adjacency.weights.dtype)
    with torch.no_grad():
        for weight, bias, unit in problem.units(layer):
            unit.weight.copy_(torch.as_tensor(weight)[None, :, None])
            unit.bias.fill_(bias)
        z0 = torch.as_tensor(problem.z0).to(adjacency.weights)[None]
        needed = None if nodes is None else torch.as_tensor(nodes, device=z0.device)[None]
        return [value[0].cpu().numpy() for value in layer(z0, adjacency, nodes=needed)]


def batched_layer(dtype: torch.dtype) -> Callable[..., Result]:
    def run(problem: Problem) -> Result:
        return Result(*adaptive_propagation(problem, Adjacency(problem.adjacency, device="cpu", dtype=dtype)))

    return run


def batched_layer_in_pytorch(problem: Problem) -> Result:
    with reference_kernels():
        return batched_layer(torch.float32)(problem)


def fused_kernels(package: str, nodes: np.ndarray | None = None) -> Callable[..., Result]:
    def run(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> Result:
        pytest.importorskip({"cpu": "numba", "gpu": "triton"}[package])
        kernels = __import__(f"apgcn.ops.kernels.{package}", fromlist=["propagate"])
        monkeypatch.setattr(dispatch, "_load_kernels", lambda device: kernels)
        device = "cuda" if package == "gpu" and torch.cuda.is_available() else "cpu"
        adjacency = Adjacency(problem.adjacency, device=device, dtype=torch.float32)
        values = adaptive_propagation(problem, adjacency, nodes)
        return Result(*values) if nodes is None else Result(*values, nodes=nodes)

    return run


class ThreadCommunicator:
    """The collective operations that a halo exchange needs, between threads of one process."""

    device = torch.device("cpu")

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, mailbox: list):
        self.rank, self.size, self._barrier, self._mailbox = rank, size, barrier, mailbox

    def _exchange(self, value):
        self._mailbox[self.rank] = value
        self._barrier.wait()
        values = list(self._mailbox)
        self._barrier.wait()  # nobody writes before all have read
        return values

    def all_to_all(self, rows, *, send_sizes, receive_sizes, count_traffic=True):
        received = [pieces[self.rank] for pieces in self._exchange(rows.contiguous().split(send_sizes))]
        assert [len(part) for part in received] == receive_sizes
        return torch.cat(received)

    def all_reduce(self, *values):
        return [torch.stack(column).sum(0) for column in zip(*self._exchange(values), strict=True)]


def sharded(problem: Problem) -> Result:
    """Two ranks, which own every other node."""
    graph = Graph(problem.adjacency, features=problem.z0, labels=np.arange(NODES) % 2)
    partition = np.arange(NODES) % 2
    barrier, mailbox, rows = threading.Barrier(2, timeout=60), [None, None], [None, None]

    def run_rank(rank: int) -> None:
        try:
            comm = ThreadCommunicator(rank, 2, barrier, mailbox)
            shard = shard_graph(graph, partition, rank)
            halo = HaloExchange.create(shard, partition, comm)
            adjacency = ShardedAdjacency(shard, halo, device=torch.device("cpu"))
            # Computed here: before Python 3.12 a cached property has one lock for all threads, so they would deadlock.
            vars(adjacency)["normalized"] = adjacency.normalize([adjacency.weights])[0]
            rows[rank] = adaptive_propagation(problem._replace(z0=shard.features), adjacency)
        finally:
            if rows[rank] is None:
                barrier.abort()  # the other rank must not wait

    threads = [threading.Thread(target=run_rank, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    order = np.argsort(np.concatenate([np.flatnonzero(partition == rank) for rank in range(2)]))
    return Result(*(np.concatenate(values)[order] for values in zip(*rows, strict=True)))


def sharded_in_pytorch(problem: Problem) -> Result:
    with reference_kernels():
        return sharded(problem)


def lazy(nodes: np.ndarray) -> Callable[..., Result]:
    def run(problem: Problem) -> Result:
        pytest.importorskip("numba")
        model = LazyModel(
            lambda rows: problem.z0[rows],
            problem.halting_weight,
            problem.halting_bias,
            HaltingParameters(problem.max_steps, problem.epsilon, problem.freeze),
        )
        result = lazy_propagate(LazyGraph.from_adjacency(problem.adjacency), model, nodes, full_step_ratio=0)
        return Result(result.output, result.steps, result.remainder, nodes=nodes)

    return run


def edge_index_and_weight(problem: Problem) -> tuple[torch.Tensor, torch.Tensor]:
    coo = problem.adjacency.tocoo()
    return torch.as_tensor(np.stack([coo.row, coo.col]).astype(np.int64)), torch.as_tensor(coo.data)


def edge_index_module(problem: Problem) -> Result:
    conv = APGCNConv(
        CHANNELS, problem.max_steps, problem.epsilon, freeze_halted=problem.freeze, min_steps=problem.min_steps
    )
    with torch.no_grad():
        for weight, bias, unit in problem.units(conv):
            unit.weight.copy_(torch.as_tensor(weight)[None])
            unit.bias.fill_(bias)
        values = conv(torch.as_tensor(problem.z0), *edge_index_and_weight(problem), return_steps=True)
    return Result(*(value.numpy() for value in values))


def trained_model(problem: Problem) -> TrainedModel:
    """A model whose MLP is the identity, ReLU(x) - ReLU(-x), so that z^0 are the features."""
    config = APGCNConfig(
        hidden_channels=2 * CHANNELS,
        max_steps=problem.max_steps,
        min_steps=problem.min_steps,
        epsilon=problem.epsilon,
        freeze_halted=problem.freeze,
    )
    identity = torch.eye(CHANNELS)
    weights = {
        "predict.first.weight": torch.cat([identity, -identity], dim=1)[None],
        "predict.first.bias": torch.zeros(1, 1, 2 * CHANNELS),
        "predict.second.weight": torch.cat([identity, -identity])[None],
        "predict.second.bias": torch.zeros(1, 1, CHANNELS),
        "propagation.halting_unit.weight": torch.as_tensor(problem.halting_weight)[None, :, None].clone(),
        "propagation.halting_unit.bias": torch.full((1, 1, 1), problem.halting_bias),
    }
    if problem.min_steps == 0:
        weight, bias = problem.unit(0)
        weights["propagation.initial_halting_unit.weight"] = torch.as_tensor(weight)[None, :, None].clone()
        weights["propagation.initial_halting_unit.bias"] = torch.full((1, 1, 1), bias)
    split = Split(train=np.array([0]), stopping=np.array([1]), test=np.array([2]), seed=0)
    return TrainedModel(config, TrainingConfig(), weights, ("a", "b", "c"), CHANNELS, split)


def prediction(problem: Problem) -> Result:
    graph = Graph(problem.adjacency, features=problem.z0, labels=np.arange(NODES) % CHANNELS)
    predictions = trained_model(problem).predict(graph)
    return Result(predictions.probabilities, predictions.steps, predictions.remainder, is_softmax=True)


def exported_module(problem: Problem) -> Result:
    with torch.no_grad():
        probabilities, steps = EnsembleModule(trained_model(problem))(
            torch.as_tensor(problem.z0), *edge_index_and_weight(problem)
        )
    return Result(probabilities.numpy(), steps.numpy(), None, is_softmax=True)


IMPLEMENTATIONS = {
    "nn.halting": halting_functions,
    "AdaptivePropagation in double precision": batched_layer(torch.float64),
    "AdaptivePropagation in PyTorch": batched_layer_in_pytorch,
    "CPU kernels": fused_kernels("cpu"),
    "CPU kernels, some nodes": fused_kernels("cpu", SOME_NODES),
    "GPU kernels": fused_kernels("gpu"),
    "GPU kernels, some nodes": fused_kernels("gpu", SOME_NODES),
    "CPU halo kernels, two ranks": sharded,
    "sharded matrices in PyTorch, two ranks": sharded_in_pytorch,
    "lazy propagation, all nodes": lazy(np.arange(NODES)),
    "lazy propagation, some nodes": lazy(SOME_NODES),
    "TrainedModel.predict": prediction,
    "APGCNConv": edge_index_module,
    "EnsembleModule": exported_module,
}


def compare(result: Result, expected: Result) -> None:
    output = expected.output[result.nodes]
    if result.is_softmax:
        output = np.exp(output) / np.exp(output).sum(1, keepdims=True)
    np.testing.assert_array_equal(result.steps, expected.steps[result.nodes])
    np.testing.assert_allclose(result.output, output, rtol=1e-4, atol=1e-5)
    if result.remainder is not None:
        np.testing.assert_allclose(result.remainder, expected.remainder[result.nodes], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("max_steps", "epsilon", "freeze", "min_steps"), CASES)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
def test_every_implementation_agrees_with_a_loop_over_nodes(name, max_steps, epsilon, freeze, min_steps, monkeypatch):
    problem, run = make_problem(max_steps, epsilon, freeze, min_steps), IMPLEMENTATIONS[name]
    if min_steps != 1 and name.startswith("lazy"):
        assert not supports_lazy(trained_model(problem).config, num_classes=CHANNELS)
        return
    compare(run(problem, monkeypatch) if "kernels" in name and "halo" not in name else run(problem), reference(problem))


@pytest.mark.parametrize(("freeze", "min_steps"), [(False, 1), (True, 1), (False, 0), (True, 0), (False, 2)])
def test_an_onnx_file_agrees_with_a_loop_over_nodes(freeze, min_steps, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    problem = make_problem(3, 0.01, freeze, min_steps)  # exporting takes seconds a step
    write_onnx(tmp_path / "model.onnx", trained_model(problem))
    edge_index, edge_weight = (tensor.numpy() for tensor in edge_index_and_weight(problem))
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    probabilities, steps = session.run(None, {"x": problem.z0, "edge_index": edge_index, "edge_weight": edge_weight})
    compare(Result(probabilities, steps, None, is_softmax=True), reference(problem))


def test_the_problem_has_nodes_that_halt_at_many_steps_and_frozen_states_that_matter():
    unfrozen, frozen = (reference(make_problem(8, 0.01, freeze)) for freeze in (False, True))
    assert len(np.unique(unfrozen.steps)) > 4
    assert unfrozen.steps.max() == 8
    assert np.abs(unfrozen.output - frozen.output).max() > 0.01


def test_in_the_problem_some_nodes_halt_before_any_step_and_some_only_because_they_may_not_halt_earlier():
    assert 0 < (reference(make_problem(8, 0.01, False, 0)).steps == 0).sum() < NODES
    later = make_problem(8, 0.01, False, 2)
    earlier, later = reference(later._replace(min_steps=1)), reference(later)
    assert (earlier.steps < later.steps).any()
    forced = reference(make_problem(3, 0.01, False, 3))
    assert (forced.remainder == 0).any(), "the sum must exceed 1 before a node may halt"
