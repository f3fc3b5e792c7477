"""Written-out loops give what PyTorch's own calls give, forward and backward.

Triton's are compiled where there is a GPU, and run by its interpreter where there is none.
"""

import signal

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.nn.layers import MLP, dropout
from apgcn.nn.operators import NormalizedAdjacency, PageRank
from apgcn.nn.propagation import AdaptivePropagation
from apgcn.ops import dispatch as written_out
from apgcn.ops.device_graph import Adjacency
from apgcn.ops.dispatch import WIDEST, reference_kernels, select_kernels
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
def loops(request, monkeypatch):
    """The one or the other; Triton's on a GPU where there is one."""
    pytest.importorskip({"cpu": "numba", "gpu": "triton"}[request.param])
    module = __import__(f"apgcn.ops.kernels.{request.param}", fromlist=["spmm"])
    monkeypatch.setattr(written_out, "_installed", lambda device: module)
    return request.param


@pytest.fixture
def device(loops):
    return "cuda" if loops == "gpu" and torch.cuda.is_available() else "cpu"


def random_graph(seed: int, nodes: int = 23) -> sparse.csr_matrix:
    """Directed, weighted, with hubs, loops, and nodes that hear nobody."""
    rng = np.random.default_rng(seed)
    matrix = sparse.random(nodes, nodes, density=0.15, random_state=rng, format="lil")
    matrix[0], matrix[:, 1] = rng.random(nodes), rng.random((nodes, 1))
    matrix[5], matrix[:, 5], matrix[7, 7] = 0, 0, 2.0
    return matrix.tocsr().astype(np.float32)


def of_both(compute):
    """What `compute` gives in a written-out loop and plainly: tensors, then the gradients of a weighted sum of them."""
    answers = []
    for plain in (False, True):
        with reference_kernels() if plain else torch.enable_grad():
            outputs, inputs = compute()
            loss = sum(
                (one.double() * torch.linspace(-1, 1, one.numel()).to(one).view_as(one)).sum() for one in outputs
            )
            answers.append([*outputs, *torch.autograd.grad(loss, inputs)])
    return zip(*answers, strict=True)


@pytest.mark.parametrize(("channels", "runs"), [(1, 1), (3, 3), (10, 2)])
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_listening_until_halting(loops, device, operator, channels, runs):
    if loops == "gpu" and device == "cpu" and channels == 1:
        pytest.skip("Triton's interpreter is slow")
    adjacency = Adjacency(random_graph(channels), device=device, dtype=torch.float32)
    for updates, training in ((0.0, True), (0.5, True), (0.0, False)):
        check_listening(adjacency, operator, channels, runs, updates=updates, training=training)


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_listening_where_halted_nodes_freeze(loops, device, operator):
    adjacency = Adjacency(random_graph(3), device=device, dtype=torch.float32)
    for updates, training in ((0.5, True), (0.0, False)):
        check_listening(adjacency, operator, 3, 2, updates=updates, training=training, freeze=True)


def check_listening(adjacency, operator, channels, runs, *, updates, training, max_steps=6, bias=-1, freeze=False):
    def rng():
        return RandomStream(range(runs), device=adjacency.weights.device)

    z0 = 3 * torch.randn(runs, adjacency.nodes, channels, generator=torch.manual_seed(1))
    z0 = z0.to(adjacency.weights).requires_grad_()
    layer = AdaptivePropagation(
        operator,
        channels=channels,
        rng=rng(),
        max_steps=max_steps,
        update_dropout=updates,
        freeze_halted=freeze,
    )
    layer.halting_unit.weight.data.abs_().add_(2 / channels)  # nodes stop at different steps
    layer.halting_unit.bias.data.fill_(bias)
    taken = []

    def compute():
        output, steps, remainder = layer(z0, adjacency, rng() if training else None)
        taken.append(steps)
        return [output, remainder], [z0, *layer.halting_unit.parameters()]

    for fast, plain in of_both(compute):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)
    assert torch.equal(*taken)
    assert len(taken[0].unique()) > 1, "a test in which all nodes stop together shows little"


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_some_nodes_get_what_they_would_get_with_all(loops, device, operator, monkeypatch):
    """And when all of these have halted, nobody listens any more."""
    adjacency = Adjacency(random_graph(4), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(operator, channels=3, rng=RandomStream([1, 2], device=device), max_steps=8)
    module, listened = written_out._installed("cpu"), []
    propagate = module.propagate
    monkeypatch.setattr(module, "propagate", lambda *given: listened.append(propagate(*given)) or listened[-1])
    layer.halting_unit.weight.data.abs_()
    layer.halting_unit.bias.data.fill_(-1)
    z0 = 3 * torch.randn(2, adjacency.nodes, 3, generator=torch.manual_seed(1))
    z0 = z0.to(device).requires_grad_()
    everybody = layer(z0, adjacency, RandomStream([5, 6], device=device))
    early = everybody.steps.argsort(dim=1)[:, :4]
    assert everybody.steps.gather(1, early).max() < everybody.steps.max()
    answers = []
    for given in (layer(z0, adjacency, RandomStream([5, 6], device=device), early), everybody):
        parts = [part.gather(1, early) for part in (given.steps, given.remainder)]
        output = given.output.gather(1, early[..., None].expand(-1, -1, 3))
        inputs = [z0, *layer.halting_unit.parameters()]
        answers.append([*parts, output, *torch.autograd.grad(output.square().sum() + parts[1].sum(), inputs)])
    for some, every in zip(*answers, strict=True):
        torch.testing.assert_close(some, every, rtol=1e-4, atol=1e-6)
    of_all, of_some = (z.abs().amax((2, 3)) > 0 for z, *_ in listened)  # (runs, steps + 1)
    last = everybody.steps.gather(1, early).max(1).values
    assert of_some.sum(1).tolist() == (last + 1).tolist()  # z^0 to z^K
    assert of_all.sum(1).tolist() == (everybody.steps.max(1).values + 1).tolist()


def test_some_nodes_get_what_they_would_get_with_all_where_others_freeze(loops, device):
    adjacency = Adjacency(random_graph(4), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(
        NormalizedAdjacency(), channels=3, rng=RandomStream([1, 2], device=device), max_steps=8, freeze_halted=True
    )
    layer.halting_unit.weight.data.abs_()
    layer.halting_unit.bias.data.fill_(-1)
    z0 = 3 * torch.randn(2, adjacency.nodes, 3, generator=torch.manual_seed(1))
    z0 = z0.to(device).requires_grad_()
    early = layer(z0, adjacency, RandomStream([5, 6], device=device)).steps.argsort(dim=1)[:, :4]
    answers = []
    for nodes in (None, early):
        given = layer(z0, adjacency, RandomStream([5, 6], device=device), nodes)
        output = given.output.gather(1, early[..., None].expand(-1, -1, 3))
        cost = given.cost.gather(1, early)
        gradients = torch.autograd.grad(output.square().sum() + cost.sum(), [z0, *layer.halting_unit.parameters()])
        answers.append([output, cost, *gradients])
    for every, some in zip(*answers, strict=True):
        torch.testing.assert_close(some, every, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("hidden_channels", [5, 16, 64, 70])
def test_two_layers_over_sparse_features(loops, device, hidden_channels, rate):
    features = sparse.random(19, 31, density=0.2, random_state=np.random.default_rng(1), format="csr", dtype=np.float32)
    x = SparseMatrix(CSRStructure(features, device=device), torch.as_tensor(features.data, device=device))
    layers = MLP(31, hidden_channels, 4, rate=rate, rng=RandomStream([1, 2], device=device))
    for rng in (lambda: RandomStream([3, 4], device=device), lambda: None):
        for fast, plain in of_both(lambda rng=rng: ([layers(x, rng())], list(layers.parameters()))):
            torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 16, 33, 70])
@pytest.mark.parametrize("shared", [True, False])
def test_products(loops, device, shared, channels):
    rectangle = sparse.random(12, 9, density=0.3, random_state=np.random.default_rng(2), format="csr")
    structure = CSRStructure(rectangle, device=device)
    torch.manual_seed(0)
    values = torch.randn((structure.nnz,) if shared else (2, structure.nnz), device=device)
    x = torch.randn(2, 9, channels, requires_grad=True, device=device)
    for rate in (0.0, 0.5, 0.2):

        def compute(rate=rate):
            return [dropout(SparseMatrix(structure, values), rate, RandomStream([1, 2], device=device)) @ x], [x]

        for fast, plain in of_both(compute):
            torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


def test_every_run_is_computed_as_if_alone(loops, device):
    adjacency = Adjacency(random_graph(3), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(NormalizedAdjacency(), channels=4, rng=RandomStream([1, 1, 1], device=device))
    z0 = torch.rand(3, adjacency.nodes, 4, device=device)
    together = layer(z0, adjacency, RandomStream([7, 8, 9], device=device)).output
    single = AdaptivePropagation(NormalizedAdjacency(), channels=4, rng=RandomStream([1], device=device))
    alone = single(z0[1:2], adjacency, RandomStream([8], device=device)).output
    assert torch.equal(together[1:2], alone)


def test_steps_over_many_rows_ask_for_them_ahead(monkeypatch):
    cpu = pytest.importorskip("apgcn.ops.kernels.cpu.propagation")
    monkeypatch.setattr(cpu, "LARGE", 0)
    adjacency = Adjacency(random_graph(2), device="cpu", dtype=torch.float32)
    check_listening(adjacency, OPERATORS["teleport"], 20, 2, updates=0.5, training=True)


def test_one_step_is_enough(loops, device):
    adjacency = Adjacency(random_graph(2), device=device, dtype=torch.float32)
    layer = AdaptivePropagation(NormalizedAdjacency(), channels=2, rng=RandomStream([1], device=device), max_steps=1)
    z0 = torch.rand(1, adjacency.nodes, 2, requires_grad=True, device=device)
    for fast, plain in of_both(lambda: ([layer(z0, adjacency, RandomStream([3], device=device)).output], [z0])):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-6)


def test_features_of_which_none_is_stored(loops, device):
    structure = CSRStructure(sparse.csr_matrix((5, 3), dtype=np.float32), device=device)
    x = SparseMatrix(structure, torch.empty(0, device=device))
    layers = MLP(3, 16, 2, rate=0.5, rng=RandomStream([1, 2], device=device))
    for rng in (lambda: RandomStream([3, 4], device=device), lambda: None):
        for fast, plain in of_both(lambda rng=rng: ([layers(x, rng())], list(layers.parameters()))):
            torch.testing.assert_close(fast, plain)


def test_a_layer_wider_than_registers_goes_the_plain_way():
    assert select_kernels(torch.ones(1), rows=1, width=WIDEST + 1) is None


def test_features_with_a_gradient_get_it(loops, device):
    features = sparse.random(9, 7, density=0.4, random_state=np.random.default_rng(1), format="csr", dtype=np.float32)
    values = torch.as_tensor(features.data, device=device).requires_grad_()
    layers = MLP(7, 16, 2, rate=0.0, rng=RandomStream([1], device=device))
    layers(SparseMatrix(CSRStructure(features, device=device), values)).square().sum().backward()
    assert values.grad is not None
    assert values.grad.abs().sum() > 0


def test_double_precision_goes_the_plain_way(loops, device):
    single = torch.ones(1, device=device)
    assert select_kernels(single, rows=1, width=1) is not None
    assert select_kernels(single.double(), rows=1, width=1) is None
    with reference_kernels():
        assert select_kernels(single, rows=1, width=1) is None


def test_words_of_a_tape(loops, device):
    """Also beyond what one program reads, and in the middle of a tape."""
    starts = [0, 12345, 2**64 - 1]
    for count in (1, 1500):
        fast, plain = RandomStream(starts, device=device), RandomStream(starts, device=device)
        for epoch in (0, 3):
            fast.seek(epoch)
            plain.seek(epoch)
            for _ in range(2):
                with reference_kernels():
                    expected = plain.random_bits(count)
                assert torch.equal(fast.random_bits(count), expected)


def test_rows_that_a_warp_has_for_itself_and_more_steps_than_bits(loops, device):
    """A hub, rows wider than what is handled at once, and, of a GPU's loops, more steps than a word has bits."""
    rng = np.random.default_rng(0)
    matrix = sparse.random(90, 90, density=0.02, random_state=rng, format="lil", dtype=np.float32)
    matrix[3], matrix[:, 4] = 1, 0.5
    adjacency = Adjacency(matrix.tocsr(), device=device, dtype=torch.float32)
    assert adjacency.structure.straight.heavy == 1
    check_listening(adjacency, OPERATORS["half dropped"], 3, 1, updates=0.0, training=True, max_steps=6)
    check_listening(adjacency, OPERATORS["half dropped"], 70, 1, updates=0.0, training=True, max_steps=2)
    if loops == "gpu":
        check_listening(adjacency, OPERATORS["some dropped"], 2, 1, updates=0.0, training=True, max_steps=34, bias=-4)


@pytest.mark.parametrize("error", [RuntimeError("Failed to find C compiler"), ImportError("no such library")])
def test_loops_that_do_not_work_are_told_once_and_done_without(error, monkeypatch):
    def broken(module):
        raise error

    monkeypatch.setattr(written_out, "import_module", broken)
    written_out._installed.cache_clear()
    try:
        with pytest.warns(UserWarning, match=f"numba is installed but does not work, so training is slow: {error}"):
            assert select_kernels(torch.ones(1), rows=1, width=1) is None
        assert RandomStream([1]).random_bits(3).shape == (1, 3)
    finally:
        written_out._installed.cache_clear()


def test_a_gpu_counts_places_in_32_bits(monkeypatch):
    monkeypatch.setattr(written_out, "_installed", lambda device: written_out)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)

    class OnGpu:
        device, dtype = torch.device("cuda", 0), torch.float32

    assert select_kernels(OnGpu(), rows=2**25, width=63) is not None
    assert select_kernels(OnGpu(), rows=2**25, width=64) is None
    OnGpu.device = torch.device("cuda", 1)  # another one than the present
    assert select_kernels(OnGpu(), rows=1, width=1) is None


def test_a_signal_waits_until_loops_are_imported(monkeypatch):
    """Python loses an exception that comes up in a callback of an import."""
    imported = []

    def interrupted(module):
        signal.raise_signal(signal.SIGINT)
        imported.append(module)
        return written_out

    monkeypatch.setattr(written_out, "import_module", interrupted)
    written_out._installed.cache_clear()
    try:
        with pytest.raises(KeyboardInterrupt):
            select_kernels(torch.ones(1), rows=1, width=1)
        assert imported == ["apgcn.ops.kernels.cpu"]
    finally:
        written_out._installed.cache_clear()
