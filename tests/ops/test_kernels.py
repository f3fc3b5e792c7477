"""Fused kernels give what the PyTorch reference gives, forward and backward.

Triton's kernels are compiled where there is a GPU, and run by its interpreter where there is none.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.nn.layers import MLP, dropout
from apgcn.nn.operators import NormalizedAdjacency, PageRank
from apgcn.nn.propagation import AdaptivePropagation, FixedPropagation
from apgcn.ops import dispatch
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import MAX_WIDTH, reference_kernels, select_kernels
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import CSRStructure, SparseMatrix

OPERATORS = {
    "half dropped": NormalizedAdjacency(0.5),
    "some dropped": NormalizedAdjacency(0.3),
    "none dropped": NormalizedAdjacency(0.0),
    "teleport": PageRank(teleport=0.2, edge_dropout=0.5),
    "as PPNP drops": PageRank(teleport=0.1, edge_dropout=0.4, renormalize=False),
}


@pytest.fixture(params=["cpu", "gpu"])
def kernels(request, monkeypatch):
    """The kernels of the CPU or of the GPU; Triton's run on a GPU where there is one."""
    pytest.importorskip({"cpu": "numba", "gpu": "triton"}[request.param])
    module = __import__(f"apgcn.ops.kernels.{request.param}", fromlist=["spmm"])
    monkeypatch.setattr(dispatch, "_load_kernels", lambda device: module)
    return request.param


@pytest.fixture
def device(kernels):
    return "cuda" if kernels == "gpu" and torch.cuda.is_available() else "cpu"


def random_graph(seed: int, nodes: int = 17) -> sparse.csr_matrix:
    """Directed, weighted, with hubs, self-loops, and nodes without in-neighbours."""
    rng = np.random.default_rng(seed)
    matrix = sparse.random(nodes, nodes, density=0.15, random_state=rng, format="lil")
    matrix[0], matrix[:, 1] = rng.random(nodes), rng.random((nodes, 1))
    matrix[5], matrix[:, 5], matrix[7, 7] = 0, 0, 2.0
    return matrix.tocsr().astype(np.float32)


def kernel_and_reference(compute):
    """Pairs of results with kernels and with the reference: outputs, then gradients of a weighted sum of them."""
    results = []
    for is_reference in (False, True):
        with reference_kernels() if is_reference else torch.enable_grad():
            outputs, inputs = compute()
            loss = sum(
                (output.double() * torch.linspace(-1, 1, output.numel()).to(output).view_as(output)).sum()
                for output in outputs
            )
            results.append([*outputs, *torch.autograd.grad(loss, inputs)])
    return zip(*results, strict=True)


@pytest.mark.parametrize(("channels", "runs"), [(1, 1), (3, 3), (10, 2)])
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_adaptive_propagation_matches_reference(kernels, device, operator, channels, runs):
    if kernels == "gpu" and device == "cpu" and channels == 1:
        pytest.skip("Triton's interpreter is slow")
    adjacency = Adjacency(random_graph(channels), device=device, dtype=torch.float32)
    for dropout_rate, training in ((0.0, True), (0.5, True), (0.0, False)):
        check_adaptive_propagation(adjacency, operator, channels, runs, update_dropout=dropout_rate, training=training)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_adaptive_propagation_with_frozen_states_matches_reference(kernels, device, operator):
    adjacency = Adjacency(random_graph(3), device=device, dtype=torch.float32)
    for dropout_rate, training in ((0.5, True), (0.0, False)):
        check_adaptive_propagation(
            adjacency, operator, 3, 2, update_dropout=dropout_rate, training=training, freeze=True
        )


def check_adaptive_propagation(
    adjacency, operator, channels, runs, *, update_dropout, training, max_steps=4, bias=-1, freeze=False
):
    def rng():
        return RandomStream(range(runs), device=adjacency.weights.device)

    z0 = 3 * torch.randn(runs, adjacency.num_nodes, channels, generator=torch.manual_seed(1))
    z0 = z0.to(adjacency.weights).requires_grad_()
    layer = AdaptivePropagation(
        operator,
        channels=channels,
        rng=rng(),
        max_steps=max_steps,
        update_dropout=update_dropout,
        freeze_halted=freeze,
    )
    layer.halting_unit.weight.data.abs_().add_(2 / channels)  # nodes stop at different steps
    layer.halting_unit.bias.data.fill_(bias)
    all_steps = []

    def compute():
        output, steps, remainder = layer(z0, adjacency, rng() if training else None)
        all_steps.append(steps)
        return [output, remainder], [z0, *layer.halting_unit.parameters()]

    for fused, reference in kernel_and_reference(compute):
        torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-5)
    assert torch.equal(*all_steps)
    assert len(all_steps[0].unique()) > 1, "the test needs nodes that stop at different steps"


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("some_nodes", [False, True])
@pytest.mark.parametrize("update_dropout", [0.0, 0.5])
def test_fixed_propagation_matches_reference(kernels, device, operator, some_nodes, update_dropout):
    """In training and in evaluation."""
    adjacency = Adjacency(random_graph(3), device=device, dtype=torch.float32)
    layer = FixedPropagation(operator, steps=4, update_dropout=update_dropout)
    for runs, training in ((1, True), (2, True), (2, False)):
        nodes = torch.tensor([[0, 5, 3], [7, 1, 16]], device=device)[:runs] if some_nodes else None
        z0 = torch.randn(runs, adjacency.num_nodes, 3, generator=torch.manual_seed(1)).to(device).requires_grad_()

        def compute(z0=z0, nodes=nodes, training=training):
            rng = RandomStream(range(len(z0)), device=device) if training else None
            return [layer(z0, adjacency, rng, nodes).output], [z0]

        for fused, reference in kernel_and_reference(compute):
            torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("some_nodes", [False, True])
@pytest.mark.parametrize("min_steps", [0, 2])
@pytest.mark.parametrize("update_dropout", [0.0, 0.5])
def test_propagation_states_match_reference(kernels, device, min_steps, some_nodes, update_dropout):
    """In adaptive propagation with another `min_steps` than the paper's, in training and in evaluation."""
    adjacency = Adjacency(random_graph(3), device=device, dtype=torch.float32)
    for runs, training in ((1, True), (2, True), (2, False)):
        nodes = torch.tensor([[0, 5, 3], [7, 1, 16]], device=device)[:runs] if some_nodes else None
        z0 = torch.randn(runs, adjacency.num_nodes, 3, generator=torch.manual_seed(1)).to(device).requires_grad_()
        layer = AdaptivePropagation(
            NormalizedAdjacency(),
            channels=3,
            rng=RandomStream(range(runs), device=device),
            max_steps=4,
            min_steps=min_steps,
            update_dropout=update_dropout,
        )
        layer.halting_unit.bias.data.fill_(0.3)
        layer.halting_unit.weight.data.mul_(5)
        if min_steps == 0:
            layer.initial_halting_unit.bias.data.fill_(5.0)
            layer.initial_halting_unit.weight.data.mul_(5)
        all_steps = []

        def compute(layer=layer, z0=z0, nodes=nodes, training=training, all_steps=all_steps):
            rng = RandomStream(range(len(z0)), device=device) if training else None
            output, steps, remainder = layer(z0, adjacency, rng, nodes)
            all_steps.append(steps)
            return [output, remainder], [z0, *layer.halting_parameters()]

        for fused, reference in kernel_and_reference(compute):
            torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-5)
        assert torch.equal(*all_steps)
        assert all_steps[0].min() >= min_steps
        assert some_nodes or all_steps[0].min() == min_steps


def test_fixed_propagation_of_values_that_are_not_finite_is_not_finite(kernels, device):
    """Their halting probability is NaN, at which the kernels stop; a zero would hide that a training diverges.

    The reference is that of the CPU: cuSPARSE returns NaN for a node without neighbours, too, whose state is finite.
    """
    graph, layer = random_graph(3), FixedPropagation(NormalizedAdjacency(), steps=4)
    for value in (float("nan"), float("inf"), 3e38):
        z0 = torch.full((1, graph.shape[0], 3), value)
        with np.errstate(over="ignore", invalid="ignore"):  # of Triton's interpreter
            fused = layer(z0.to(device), Adjacency(graph, device=device, dtype=torch.float32)).output
        with reference_kernels():
            reference = layer(z0, Adjacency(graph, device="cpu", dtype=torch.float32)).output
        assert torch.equal(fused.isfinite().cpu(), reference.isfinite())
        assert not reference.isfinite().all()


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_results_of_some_nodes_equal_those_of_all_nodes(kernels, device, operator, monkeypatch):
    """And propagation ends when all of these have halted."""
    adjacency = Adjacency(random_graph(4), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(operator, channels=3, rng=RandomStream([1, 2], device=device), max_steps=8)
    module, states = dispatch._load_kernels("cpu"), []
    propagate = module.propagate
    monkeypatch.setattr(module, "propagate", lambda *args: states.append(propagate(*args)) or states[-1])
    layer.halting_unit.weight.data.abs_()
    layer.halting_unit.bias.data.fill_(-1)
    z0 = 3 * torch.randn(2, adjacency.num_nodes, 3, generator=torch.manual_seed(1))
    z0 = z0.to(device).requires_grad_()
    all_nodes = layer(z0, adjacency, RandomStream([5, 6], device=device))
    early = all_nodes.steps.argsort(dim=1)[:, :4]
    assert all_nodes.steps.gather(1, early).max() < all_nodes.steps.max()
    results = []
    for selected in (layer(z0, adjacency, RandomStream([5, 6], device=device), early), all_nodes.select(early)):
        inputs = [z0, *layer.halting_unit.parameters()]
        loss = selected.output.square().sum() + selected.remainder.sum()
        results.append([*selected, *torch.autograd.grad(loss, inputs)])
    for some, every in zip(*results, strict=True):
        torch.testing.assert_close(some, every, rtol=1e-4, atol=1e-6)
    all_computed, some_computed = (z.abs().amax((2, 3)) > 0 for z, *_ in states)  # (runs, steps + 1)
    last = all_nodes.steps.gather(1, early).max(1).values
    assert some_computed.sum(1).tolist() == (last + 1).tolist()  # z^0 to z^K
    assert all_computed.sum(1).tolist() == (all_nodes.steps.max(1).values + 1).tolist()


def test_results_of_some_nodes_equal_those_of_all_nodes_with_frozen_states(kernels, device):
    adjacency = Adjacency(random_graph(4), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(
        NormalizedAdjacency(), channels=3, rng=RandomStream([1, 2], device=device), max_steps=8, freeze_halted=True
    )
    layer.halting_unit.weight.data.abs_()
    layer.halting_unit.bias.data.fill_(-1)
    z0 = 3 * torch.randn(2, adjacency.num_nodes, 3, generator=torch.manual_seed(1))
    z0 = z0.to(device).requires_grad_()
    early = layer(z0, adjacency, RandomStream([5, 6], device=device)).steps.argsort(dim=1)[:, :4]
    results = []
    for nodes in (None, early):
        propagated = layer(z0, adjacency, RandomStream([5, 6], device=device), nodes)
        selected = propagated if nodes is not None else propagated.select(early)
        loss = selected.output.square().sum() + selected.cost.sum()
        results.append([*selected, *torch.autograd.grad(loss, [z0, *layer.halting_unit.parameters()])])
    for every, some in zip(*results, strict=True):
        torch.testing.assert_close(some, every, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("hidden_channels", [5, 16, 64, 70])
def test_mlp_over_sparse_features_matches_reference(kernels, device, hidden_channels, rate):
    features = sparse.random(9, 13, density=0.3, random_state=np.random.default_rng(1), format="csr", dtype=np.float32)
    x = SparseMatrix(CSRStructure(features, device=device), torch.as_tensor(features.data, device=device))
    layers = MLP(13, hidden_channels, 4, dropout=rate, rng=RandomStream([1, 2], device=device))
    for rng in (lambda: RandomStream([3, 4], device=device), lambda: None):
        for fused, reference in kernel_and_reference(lambda rng=rng: ([layers(x, rng())], list(layers.parameters()))):
            torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
@pytest.mark.parametrize(("features", "hidden_channels", "channels"), [(1, 5, 1), (31, 16, 4), (40, 64, 20)])
def test_mlp_over_dense_features_matches_reference(features, hidden_channels, channels, rate):
    """Also for several blocks of nodes, and for features that differ between runs."""
    pytest.importorskip("numba")
    generator = torch.Generator().manual_seed(1)
    layers = MLP(features, hidden_channels, channels, dropout=rate, rng=RandomStream([1, 2]))
    for shape in ((700, features), (2, 19, features)):
        x = torch.randn(*shape, generator=generator)
        for rng in (lambda: RandomStream([3, 4]), lambda: None):
            for fused, reference in kernel_and_reference(
                lambda x=x, rng=rng: ([layers(x, rng())], list(layers.parameters()))
            ):
                torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("channels", [1, 16, 33, 70])
@pytest.mark.parametrize("shared", [True, False])
def test_spmm_matches_reference(kernels, device, shared, channels):
    rectangle = sparse.random(12, 9, density=0.3, random_state=np.random.default_rng(2), format="csr")
    structure = CSRStructure(rectangle, device=device)
    torch.manual_seed(0)
    values = torch.randn((structure.nnz,) if shared else (2, structure.nnz), device=device)
    x = torch.randn(2, 9, channels, requires_grad=True, device=device)
    for rate in (0.0, 0.5, 0.2):

        def compute(rate=rate):
            return [dropout(SparseMatrix(structure, values), rate, RandomStream([1, 2], device=device)) @ x], [x]

        for fused, reference in kernel_and_reference(compute):
            torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-5)


def test_every_run_is_computed_as_if_alone(kernels, device):
    adjacency = Adjacency(random_graph(3), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(NormalizedAdjacency(), channels=4, rng=RandomStream([1, 1, 1], device=device))
    z0 = torch.rand(3, adjacency.num_nodes, 4, device=device)
    together = layer(z0, adjacency, RandomStream([7, 8, 9], device=device)).output
    single = AdaptivePropagation(NormalizedAdjacency(), channels=4, rng=RandomStream([1], device=device))
    alone = single(z0[1:2], adjacency, RandomStream([8], device=device)).output
    assert torch.equal(together[1:2], alone)


def test_adaptive_propagation_with_prefetching_matches_reference(monkeypatch):
    cpu = pytest.importorskip("apgcn.ops.kernels.cpu.propagation")
    monkeypatch.setattr(cpu, "PREFETCH_SIZE", 0)
    adjacency = Adjacency(random_graph(2), device="cpu", dtype=torch.float32)
    check_adaptive_propagation(adjacency, OPERATORS["teleport"], 20, 2, update_dropout=0.5, training=True)


def test_a_single_step_matches_reference(kernels, device):
    adjacency = Adjacency(random_graph(2), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(NormalizedAdjacency(), channels=2, rng=RandomStream([1], device=device), max_steps=1)
    z0 = torch.rand(1, adjacency.num_nodes, 2, requires_grad=True, device=device)
    for fused, reference in kernel_and_reference(
        lambda: ([layer(z0, adjacency, RandomStream([3], device=device)).output], [z0])
    ):
        torch.testing.assert_close(fused, reference, rtol=1e-4, atol=1e-6)


def test_mlp_over_features_without_entries_matches_reference(kernels, device):
    structure = CSRStructure(sparse.csr_matrix((5, 3), dtype=np.float32), device=device)
    x = SparseMatrix(structure, torch.empty(0, device=device))
    layers = MLP(3, 16, 2, dropout=0.5, rng=RandomStream([1, 2], device=device))
    for rng in (lambda: RandomStream([3, 4], device=device), lambda: None):
        for fused, reference in kernel_and_reference(lambda rng=rng: ([layers(x, rng())], list(layers.parameters()))):
            torch.testing.assert_close(fused, reference)


def test_a_layer_wider_than_registers_uses_the_reference():
    assert select_kernels(torch.ones(1), rows=1, width=MAX_WIDTH + 1) is None


def test_sparse_features_that_require_a_gradient_get_it(kernels, device):
    features = sparse.random(9, 7, density=0.4, random_state=np.random.default_rng(1), format="csr", dtype=np.float32)
    values = torch.as_tensor(features.data, device=device).requires_grad_()
    layers = MLP(7, 16, 2, dropout=0.0, rng=RandomStream([1], device=device))
    layers(SparseMatrix(CSRStructure(features, device=device), values)).square().sum().backward()
    assert values.grad is not None
    assert values.grad.abs().sum() > 0


def test_double_precision_uses_the_reference(kernels, device):
    single = torch.ones(1, device=device)
    assert select_kernels(single, rows=1, width=1) is not None
    assert select_kernels(single.double(), rows=1, width=1) is None
    with reference_kernels():
        assert select_kernels(single, rows=1, width=1) is None


def test_random_bits_match_reference(kernels, device):
    """Also for more numbers than one GPU program computes, and in the middle of a stream."""
    starts = [0, 12345, 2**64 - 1]
    for count in (1, 1500):
        fused, reference = RandomStream(starts, device=device), RandomStream(starts, device=device)
        for epoch in (0, 3):
            fused.seek(epoch)
            reference.seek(epoch)
            for _ in range(2):
                with reference_kernels():
                    expected = reference.random_bits(count)
                assert torch.equal(fused.random_bits(count), expected)


def test_long_rows_and_more_steps_than_mask_bits_match_reference(kernels, device):
    """A hub, more channels than a program handles at once, and, on a GPU, more steps than a number has mask bits."""
    rng = np.random.default_rng(0)
    matrix = sparse.random(70, 70, density=0.02, random_state=rng, format="lil", dtype=np.float32)
    matrix[3], matrix[:, 4] = 1, 0.5
    adjacency = Adjacency(matrix.tocsr(), device=device, dtype=torch.float32)
    assert adjacency.structure.csr.long_rows == 1
    check_adaptive_propagation(adjacency, OPERATORS["half dropped"], 3, 1, update_dropout=0.0, training=True)
    check_adaptive_propagation(
        adjacency, OPERATORS["half dropped"], 70, 1, update_dropout=0.0, training=True, max_steps=2
    )
    if kernels == "gpu":
        few_nodes = Adjacency(random_graph(1, nodes=12), device=device, dtype=torch.float32)
        check_adaptive_propagation(
            few_nodes, OPERATORS["some dropped"], 2, 1, update_dropout=0.0, training=True, max_steps=34, bias=-4
        )


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("operator", ["half dropped", "some dropped", "teleport"])
def test_graphs_without_weights_match_reference(kernels, device, operator, freeze):
    """With a row that is long in the matrix and one in its transpose."""
    matrix = random_graph(2, nodes=75)
    matrix.data[:] = 1
    adjacency = Adjacency(matrix, device=device, dtype=torch.float32)
    assert adjacency.unit_weights
    assert adjacency.structure.csr.long_rows > 0
    assert adjacency.structure.csr_transposed.long_rows > 0
    check_adaptive_propagation(
        adjacency, OPERATORS[operator], 3, 2, update_dropout=0.0, training=True, bias=-2, freeze=freeze
    )


def test_a_graph_with_one_other_weight_is_weighted():
    matrix = random_graph(0)
    assert not Adjacency(matrix, device="cpu", dtype=torch.float32).unit_weights
    matrix.data[:] = 1
    assert Adjacency(matrix, device="cpu", dtype=torch.float32).unit_weights
    matrix.data[3] = 1 + 1e-6
    assert not Adjacency(matrix, device="cpu", dtype=torch.float32).unit_weights


@pytest.mark.parametrize("error", [RuntimeError("Failed to find C compiler"), ImportError("no such library")])
def test_kernels_that_do_not_work_cause_one_warning_and_the_reference_is_used(error, monkeypatch):
    def broken(module):
        raise error

    monkeypatch.setattr(dispatch, "import_module", broken)
    dispatch._load_kernels.cache_clear()
    try:
        with pytest.warns(UserWarning, match=f"numba is installed but does not work, so training is slow: {error}"):
            assert select_kernels(torch.ones(1), rows=1, width=1) is None
        assert RandomStream([1]).random_bits(3).shape == (1, 3)
    finally:
        dispatch._load_kernels.cache_clear()


def test_gpu_kernels_index_matrices_with_32_bits(monkeypatch):
    monkeypatch.setattr(dispatch, "_load_kernels", lambda device: dispatch)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)

    class GPUTensor:
        device, dtype = torch.device("cuda", 0), torch.float32

    assert select_kernels(GPUTensor(), rows=2**25, width=63) is not None
    assert select_kernels(GPUTensor(), rows=2**25, width=64) is None
    GPUTensor.device = torch.device("cuda", 1)  # not the current GPU
    assert select_kernels(GPUTensor(), rows=1, width=1) is None


def test_a_signal_waits_until_kernels_are_imported(monkeypatch):
    """Python loses an exception that is raised in a callback of an import."""
    imported = []

    def interrupted(module):
        signal.raise_signal(signal.SIGINT)
        imported.append(module)
        return dispatch

    monkeypatch.setattr(dispatch, "import_module", interrupted)
    dispatch._load_kernels.cache_clear()
    try:
        with pytest.raises(KeyboardInterrupt):
            select_kernels(torch.ones(1), rows=1, width=1)
        assert imported == ["apgcn.ops.kernels.cpu"]
    finally:
        dispatch._load_kernels.cache_clear()


COMPILE = """
import numpy as np
from cpu_kernels.spmm import _spmm_kernels
indptr, indices, values = np.array([0, 1], "u4"), np.array([0], "u4"), np.array([[3.0]], "f4")
dense, output = np.ones((1, 1, 16), "f4"), np.empty((1, 1, 16), "f4")
product, _ = _spmm_kernels(16)
product(indptr, indices, values, dense, output, 1)
dispatcher = next(cell.cell_contents for cell in product.__closure__ if hasattr(cell.cell_contents, "stats"))
print(output[0, 0, 0], sum(dispatcher.stats.cache_hits.values()))
"""


def test_cached_kernels_are_recompiled_when_simd_rows_changes(tmp_path):
    """numba itself looks only at the file of the kernel, into which `simd_rows` is inlined."""
    pytest.importorskip("numba")
    package = tmp_path / "cpu_kernels"
    package.mkdir()
    source = Path(dispatch.__file__).parent / "kernels" / "cpu"
    for file in source.glob("*.py"):
        text = file.read_text() if file.name != "__init__.py" else ""
        (package / file.name).write_text(text.replace("apgcn.ops.kernels.cpu", "cpu_kernels"))

    def product_and_cache_hits() -> str:
        command = [sys.executable, "-c", COMPILE]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.check_output(command, cwd=tmp_path, env=environment, text=True).strip()

    assert product_and_cache_hits() == "3.0 0"
    assert product_and_cache_hits() == "3.0 1"
    simd_rows = package / "simd_rows.py"
    text = simd_rows.read_text()
    edited = text.replace("builder.fadd(builder.fmul(a, x,", "builder.fadd(builder.fadd(a, x,")  # a + x + y
    assert edited != text
    simd_rows.write_text(edited)
    assert product_and_cache_hits() == "4.0 0"


def test_a_kernel_may_not_use_a_function_that_is_compiled_beside_it():
    """numba would give the kernel another key in every process, and compile it in each."""
    pytest.importorskip("numba")
    from apgcn.ops.kernels.cpu.jit import kernel_helper

    @kernel_helper
    def helper(x):
        return x + 1

    with pytest.raises(TypeError, match="compiled functions of a module"):

        @kernel_helper
        def kernel(x):
            return helper(x)


TRAIN_AND_PREDICT = """
from numba.core import event
import apgcn
from apgcn.inference.fit import fit
graph = apgcn.clean(apgcn.load("cora"))
split = apgcn.benchmark_runs(graph, 1)[0].split
with event.install_recorder("numba:compile") as recorder:
    for freeze_halted in (False, True):
        config = apgcn.APGCNConfig(hidden_channels=8, freeze_halted=freeze_halted)
        fit(graph, split, config, apgcn.TrainingConfig(max_epochs=5)).predict(graph)
compiled = [record.data["dispatcher"].py_func.__qualname__ for _, record in recorder.buffer if record.is_start]
print(len(compiled), *compiled)
"""


@pytest.mark.slow
def test_a_second_process_compiles_no_kernel(tmp_path):
    pytest.importorskip("numba")

    def compiled_kernels() -> list[str]:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        output = subprocess.check_output([sys.executable, "-c", TRAIN_AND_PREDICT], env=environment, text=True)
        return output.split()[1:]

    assert len(compiled_kernels()) > 5
    assert compiled_kernels() == []
