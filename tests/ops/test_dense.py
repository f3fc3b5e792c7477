"""Dense products and sums of fixed order equal PyTorch's in double precision, whatever runs are in the batch.

Triton's kernels are compiled where there is a GPU, and run by its interpreter where there is none.
"""

import pytest
import torch
from scipy import sparse

from apgcn.ops import dense, dispatch
from apgcn.ops.sparse import CSRStructure, SparseMatrix

gpu = pytest.importorskip("apgcn.ops.kernels.gpu", exc_type=ImportError)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# Nodes, in_channels and out_channels: below, at and above the sizes of a tile and of a chunk
SIZES = [(1, 1, 1), (20, 7, 3), (140, 64, 7), (64, 3, 64), (70, 33, 90), (600, 20, 5)]


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setattr(dispatch, "_load_kernels", lambda device: gpu)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


OPERATIONS = {
    "matmul": (dense.matmul, lambda runs, n, c, d: [random(runs, n, c), random(runs, c, d, seed=1)]),
    "matmul of stacks": (dense.matmul, lambda runs, n, c, d: [random(runs, 2, n, c), random(runs, 2, c, d, seed=1)]),
    "linear": (
        dense.linear,
        lambda runs, n, c, d: [random(runs, n, c), random(runs, c, d, seed=1), random(runs, 1, d, seed=2)],
    ),
    "add_bias": (dense.add_bias, lambda runs, n, c, d: [random(runs, n, c), random(runs, 1, c, seed=1)]),
    "add_bias of stacks": (
        dense.add_bias,
        lambda runs, n, c, d: [random(runs, 2, n, c), random(runs, 2, 1, c, seed=1)],
    ),
    "run_sums": (dense.run_sums, lambda runs, n, c, d: [random(runs, n, c)]),
    "run_means": (dense.run_means, lambda runs, n, c, d: [random(runs, n)]),
    "squared_norms": (dense.squared_norms, lambda runs, n, c, d: [random(runs, n, c)]),
    "axis_sums": (lambda x: dense.axis_sums(x, 1), lambda runs, n, c, d: [random(runs, d, n, c)]),
    "logsumexp": (lambda x: dense.logsumexp(x, 1), lambda runs, n, c, d: [random(runs, d, n, 2)]),
    "scale_rows": (dense.scale_rows, lambda runs, n, c, d: [random(runs, n, c), random(runs, n, seed=1)]),
}


def outputs_and_gradients(operation, inputs):
    """The output, and the gradients of a weighted sum of it whose weights of a run do not depend on the others."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = operation(*inputs)
    weights = torch.linspace(-1, 1, output[0].numel() + 1)[1:].view_as(output[0]).to(output)
    return [output.detach(), *torch.autograd.grad((output * weights).sum(), inputs)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_equal_those_of_pytorch_in_double_precision(name, size):
    operation, make_inputs = OPERATIONS[name]
    inputs = make_inputs(2, *size)
    results = outputs_and_gradients(operation, inputs)
    with dense.library_products():
        expected = outputs_and_gradients(operation, [tensor.double() for tensor in inputs])
    for result, value in zip(results, expected, strict=True):
        assert result.dtype == torch.float32
        torch.testing.assert_close(result.double(), value, rtol=1e-5, atol=1e-5 * size[0] ** 0.5)


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_run_has_the_same_bits_alone_among_others_and_in_any_order(name, size):
    operation, make_inputs = OPERATIONS[name]
    inputs = make_inputs(3, *size)
    together = outputs_and_gradients(operation, inputs)
    for runs in ([0], [1], [2], [2, 0, 1], [1, 2]):
        some = outputs_and_gradients(operation, [tensor[runs] for tensor in inputs])
        for index, (result, expected) in enumerate(zip(some, together, strict=True)):
            assert torch.equal(result, expected[runs]), f"{name}, runs {runs}: tensor {index} differs"


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_with_a_shared_matrix_equal_those_of_pytorch_and_do_not_depend_on_the_batch(size):
    nodes, in_channels, out_channels = size
    x, weight = random(nodes, in_channels), random(5, in_channels, out_channels, seed=1)
    together = outputs_and_gradients(lambda weight: dense.matmul(x, weight), [weight])
    expected = outputs_and_gradients(lambda weight: x.double() @ weight, [weight.double()])
    for result, value in zip(together, expected, strict=True):
        torch.testing.assert_close(result.double(), value, rtol=1e-5, atol=1e-5 * nodes**0.5)
    for runs in ([3], [4, 0]):
        some = outputs_and_gradients(lambda weight: dense.matmul(x, weight), [weight[runs]])
        assert all(torch.equal(result, value[runs]) for result, value in zip(some, together, strict=True)), runs


def test_sums_of_several_passes_are_complete():
    """More chunks than one program adds."""
    x, weights = random(2, 40_000, 3), random(2, 40_000, seed=1)
    torch.testing.assert_close(dense.column_sums(x).double(), x.double().sum(1), rtol=1e-4, atol=1e-2)
    expected = (x.double() * weights[..., None].double()).sum(1)
    torch.testing.assert_close(dense.column_sums(x, weights).double(), expected, rtol=1e-4, atol=1e-2)
    assert torch.equal(dense.column_sums(x[1:], weights[1:])[0], dense.column_sums(x, weights)[1])
    torch.testing.assert_close(dense.run_sums(x).double(), x.double().sum((1, 2)), rtol=1e-4, atol=1e-2)


def test_sums_of_states_that_lie_apart_equal_those_of_copies():
    z, weights = random(2, 4, 33, 8), random(2, 3 * 33, seed=1)
    rows = z[:, 1:].flatten(1, 2)
    assert rows.data_ptr() != z.data_ptr()
    assert torch.equal(dense.column_sums(rows, weights), dense.column_sums(rows.clone(), weights))
    assert torch.equal(dense.axis_sums(z[:, 1:], 1), dense.axis_sums(z[:, 1:].clone(), 1))


def test_slices_of_a_batch_of_one_run_are_aligned():
    """Such a slice is contiguous and is not copied; Triton compiles another variant where it is not aligned."""
    values = random(1, 3, 7)
    assert values[:, 1].is_contiguous()
    assert values[:, 1].data_ptr() % 16
    assert gpu.dense.align(values[:, 1]).data_ptr() % 16 == 0
    assert torch.equal(gpu.dense.align(values[:, 1]), values[:, 1])


@pytest.mark.parametrize("channels", [1, 8, 70])
def test_gradients_of_the_values_of_a_sparse_matrix_equal_those_of_pytorch(channels):
    matrix = sparse.random(12, 9, density=0.3, random_state=3, format="csr")
    structure = CSRStructure(matrix, device=DEVICE)
    values, x = random(3, structure.nnz), random(3, 9, channels, seed=1)
    gradients = outputs_and_gradients(lambda values: SparseMatrix(structure, values) @ x, [values])
    with dense.library_products():
        expected = outputs_and_gradients(lambda values: SparseMatrix(structure, values) @ x, [values])
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-5)
    alone = outputs_and_gradients(lambda values: SparseMatrix(structure, values) @ x[1:2], [values[1:2]])
    assert all(torch.equal(result, value[1:2]) for result, value in zip(alone, gradients, strict=True))


def test_library_products_and_double_precision_use_pytorch(monkeypatch):
    monkeypatch.setattr(gpu, "matmul", lambda *args: pytest.fail("a kernel was used"))
    x, weight = random(2, 5, 3), random(2, 3, 4)
    with dense.library_products():
        assert torch.equal(dense.matmul(x, weight), x @ weight)
    assert torch.equal(dense.matmul(x.double(), weight.double()), x.double() @ weight.double())


def test_logsumexp_of_minus_infinity_is_minus_infinity():
    assert dense.logsumexp(torch.full((1, 2, 3), -torch.inf, device=DEVICE), 1).tolist() == [[-torch.inf] * 3]
