"""Products with a matrix of bits equal those with its values, whatever runs are in the batch.

Triton's kernels are compiled where there is a GPU, and run by its interpreter where there is none.
"""

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn.nn.layers import MLP, dropout
from apgcn.ops import dispatch
from apgcn.ops.binary import BinaryForm
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.dispatch import reference_kernels
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import CSRStructure, SparseMatrix

gpu = pytest.importorskip("apgcn.ops.kernels.gpu", exc_type=ImportError)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# Rows, columns and channels: below, at and above the sizes of a word, of a tile and of a chunk of terms
SIZES = [(3, 1, 1), (20, 32, 3), (129, 33, 16), (64, 140, 70), (2100, 5, 7)]


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    monkeypatch.setattr(dispatch, "_load_kernels", lambda device: gpu)


def binary_matrix(rows, columns, *, density=0.4):
    """A matrix whose rows have one value each; some rows are empty."""
    rng = np.random.default_rng(0)
    entries = rng.random((rows, columns)) < density
    entries[0] = True
    entries[1::7] = False
    values = rng.random((rows, 1)).astype(np.float32) + 0.5
    return sparse.csr_matrix(entries * values)


def features(rows, columns):
    matrix = binary_matrix(rows, columns)
    form = BinaryForm.from_matrix(matrix, device=DEVICE)
    assert form is not None
    return SparseMatrix(
        CSRStructure(matrix, device=DEVICE), torch.as_tensor(matrix.data, device=DEVICE), binary_form=form
    )


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def product_and_gradient(matrix, dense):
    dense = dense.detach().clone().requires_grad_()
    output = matrix @ dense
    weights = torch.linspace(-1, 1, output[0].numel() + 1)[1:].view_as(output[0]).to(output)
    return output.detach(), torch.autograd.grad((output * weights).sum(), dense)[0]


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_equal_those_in_double_precision(size, rate):
    rows, columns, channels = size
    matrix = dropout(features(rows, columns), rate, RandomStream([1, 2], device=DEVICE))
    dense = random(2, columns, channels)
    results = product_and_gradient(matrix, dense)
    values = matrix.masked_values.double().expand(2, -1)
    expected = product_and_gradient(SparseMatrix(matrix.structure, values), dense.double())
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(result.double(), value, rtol=2e-6, atol=2e-6 * float(value.abs().max()))


def test_numbers_of_any_magnitude_keep_their_precision():
    """Three bfloat16 numbers hold a float32, from the smallest weights to the largest."""
    matrix = features(20, 40)
    magnitudes = 10.0 ** torch.arange(-30, 30, 1.5, dtype=torch.float64, device=DEVICE)
    dense = (random(1, 1, 16).double() * magnitudes[:, None]).float()
    result = torch.stack(
        [(matrix @ torch.where(torch.arange(40, device=DEVICE)[:, None] == k, dense, 0.0))[0] for k in range(40)]
    )
    expected = matrix.to_dense().double().T[..., None] * dense[0].double()[:, None, :]
    torch.testing.assert_close(result.double(), expected, rtol=2e-7, atol=0)


@pytest.mark.filterwarnings("ignore:invalid value")  # of numpy, in Triton's interpreter
def test_numbers_that_are_not_finite_stay_so():
    matrix = features(20, 40)
    dense = random(1, 40, 16)
    dense[0, 3, 2] = torch.nan
    dense[0, 5, 4] = torch.inf
    output = matrix @ dense
    assert output[0, :, 2].isnan().any()
    assert not output[0, :, 4].isfinite().all()


@pytest.mark.parametrize("size", SIZES[1:], ids=str)
def test_a_run_has_the_same_bits_alone_among_others_and_in_any_order(size):
    rows, columns, channels = size
    dense, seeds = random(3, columns, channels), [1, 2, 3]
    together = product_and_gradient(dropout(features(rows, columns), 0.5, RandomStream(seeds, device=DEVICE)), dense)
    for runs in ([0], [1], [2, 0, 1], [1, 2]):
        rng = RandomStream([seeds[run] for run in runs], device=DEVICE)
        some = product_and_gradient(dropout(features(rows, columns), 0.5, rng), dense[runs])
        for result, expected in zip(some, together, strict=True):
            assert torch.equal(result, expected[runs])


@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_mlp_over_bits_matches_reference(rate):
    x, seeds = features(150, 70), [1, 2]

    def outputs_and_gradients():
        model = MLP(70, 16, 5, dropout=rate, rng=RandomStream(seeds, device=DEVICE))
        rng = RandomStream(seeds, device=DEVICE)
        rng.seek(1)
        output, evaluated = model(x, rng), model(x)
        weights = torch.linspace(-1, 1, output[0].numel()).view_as(output[0]).to(output)
        gradients = torch.autograd.grad((output * weights).sum() + evaluated.square().sum(), model.parameters())
        return [output, evaluated, *gradients]

    results = outputs_and_gradients()
    with reference_kernels():
        expected = outputs_and_gradients()
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(result, value, rtol=1e-5, atol=1e-5 * float(value.detach().abs().max()))


def test_only_dense_matrices_of_one_value_per_row_become_bits():
    matrix = binary_matrix(20, 10)
    assert BinaryForm.from_matrix(matrix, device=DEVICE) is not None
    changed = matrix.copy()
    changed.data[-1] *= 2
    assert BinaryForm.from_matrix(changed, device=DEVICE) is None
    assert BinaryForm.from_matrix(binary_matrix(40, 30, density=0.1), device=DEVICE) is None
    assert BinaryForm.from_matrix(sparse.csr_matrix((4, 3)), device=DEVICE) is None


def test_features_of_unit_length_keep_their_bits():
    x = features(20, 10)
    graph = DeviceGraph(features=x, adjacency=None, labels=None, num_classes=2)
    scaled = graph.unit_length_features
    dense = random(1, 10, 16)
    assert scaled.binary_form is not None
    plain = SparseMatrix(scaled.structure, scaled.values)
    torch.testing.assert_close(scaled @ dense, plain @ dense, rtol=2e-6, atol=2e-6)
