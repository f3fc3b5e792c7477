"""The modules for (x, edge_index) agree with the batched model, and behave like PyTorch Geometric's."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from apgcn import clean, load
from apgcn.errors import InvalidInput
from apgcn.models.apgcn import APGCNConfig
from apgcn.nn import APGCN, APGCNConv, GCNPropagation
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.fixture(scope="module")
def cora():
    return clean(load("cora"))


@pytest.fixture(scope="module")
def data(cora):
    coo = cora.adjacency.tocoo()
    edge_index = torch.as_tensor(np.stack([coo.row, coo.col]).astype(np.int64))
    return torch.as_tensor(cora.features.toarray()), edge_index, torch.as_tensor(cora.labels.copy())


@pytest.mark.parametrize("freeze", [False, True])
def test_the_module_agrees_with_the_batched_model(cora, data, freeze):
    """Output, steps, remainder, and the gradient of the paper's loss."""
    x, edge_index, labels = data
    device_graph = DeviceGraph.from_graph(cora)
    batched = APGCNConfig(freeze_halted=freeze).build(device_graph, RandomStream([3]))
    batched.propagation.halting_unit.bias.data.fill_(-1)  # so that nodes halt early
    module = APGCN(x.shape[1], 64, cora.num_classes, freeze_halted=freeze).eval()
    pairs = {
        "lin1": batched.predict.first,
        "lin2": batched.predict.second,
        "propagation.halting_unit": batched.propagation.halting_unit,
    }
    for name, conv in pairs.items():
        target = module.get_submodule(name)
        target.weight.data.copy_(conv.weight.data[0].T)
        target.bias.data.copy_(conv.bias.data[0, 0])
    output, steps, remainder = module(x, edge_index, return_steps=True)
    expected = batched(device_graph)
    torch.testing.assert_close(output, expected.output[0], rtol=1e-4, atol=1e-5)
    assert torch.equal(steps, expected.steps[0])
    torch.testing.assert_close(remainder, expected.remainder[0], rtol=1e-4, atol=1e-5)
    for out, k, r in ((output, steps, remainder), (expected.output[0], expected.steps[0], expected.remainder[0])):
        (functional.cross_entropy(out, labels) + 0.005 * (k + r).mean()).backward()
    for name, conv in pairs.items():
        gradient, expected_gradient = module.get_submodule(name).weight.grad, conv.weight.grad[0].T
        assert (gradient - expected_gradient).norm() <= 1e-4 * expected_gradient.norm(), name


@pytest.mark.filterwarnings("ignore:Sparse")
def test_edges_may_be_an_edge_index_or_a_sparse_matrix(data):
    x, edge_index, _ = data
    module = APGCN(x.shape[1], 16, 7).eval()
    expected = module(x, edge_index)
    weight = torch.ones(edge_index.shape[1])
    matrix = torch.sparse_coo_tensor(edge_index.flip(0), weight, (len(x), len(x)), check_invariants=True)
    for edges in ((edge_index, weight), (matrix,), (matrix.to_sparse_csr(),)):
        torch.testing.assert_close(module(x, *edges), expected)
    assert not torch.allclose(module(x, edge_index, 3 * weight), expected)


def test_leading_axes_are_batch_axes():
    conv = APGCNConv(4, max_steps=3)
    x = torch.randn(2, 5, 3, 4)
    output, steps, remainder = conv(x, PATH, return_steps=True)
    assert output.shape == x.shape
    assert steps.shape == remainder.shape == (2, 5, 3)
    torch.testing.assert_close(output[1, 4], conv(x[1, 4], PATH))


def test_a_propagation_step_computed_by_hand():
    """A path of three nodes: degrees with self-loops 2, 3, 2."""
    z = torch.tensor([[1.0], [0.0], [0.0]])
    out = GCNPropagation()(z, PATH)
    torch.testing.assert_close(out, torch.tensor([[1 / 2], [1 / 6**0.5], [0.0]]))
    directed = GCNPropagation()(z, torch.tensor([[0], [1]]))  # from 0 to 1 only
    torch.testing.assert_close(directed, torch.tensor([[1.0], [1 / 2**0.5], [0.0]]))


def test_self_loops_in_edge_index_are_those_of_the_normalisation():
    with_self_loops = torch.cat([PATH, torch.tensor([[0, 2], [0, 2]])], dim=1)
    x = torch.randn(3, 2)
    torch.testing.assert_close(GCNPropagation()(x, with_self_loops), GCNPropagation()(x, PATH))


def test_edge_dropout_never_drops_self_loops():
    conv = GCNPropagation(0.5)
    x = torch.ones(3, 1)
    outputs = {tuple(conv(x, PATH).flatten().tolist()) for _ in range(60)}
    assert len(outputs) > 3
    assert (1.0, 1.0, 1.0) in outputs, "without any edge a node keeps its value"
    conv.eval()
    assert torch.equal(conv(x, PATH), GCNPropagation()(x, PATH))


@pytest.mark.parametrize("training", [False, True])
def test_the_model_compiles_without_a_graph_break(data, training):
    x, edge_index, _ = data
    module = APGCN(x.shape[1], 16, 7, dropout=0.5 if training else 0.0).train(training)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    output, steps, _ = compiled(x, edge_index, return_steps=True)
    assert output.shape == (len(x), 7)
    if not training:
        torch.testing.assert_close(output, module(x, edge_index))
    torch.compiler.reset()
    assert steps.max() <= 10


def test_the_model_exports_with_dynamic_numbers_of_nodes_and_edges(data):
    x, edge_index, _ = data
    module = APGCN(x.shape[1], 16, 7).eval()
    nodes, edges = torch.export.Dim("nodes"), torch.export.Dim("edges")
    exported = torch.export.export(module, (x, edge_index), dynamic_shapes={"x": {0: nodes}, "edge_index": {1: edges}})
    subgraph = edge_index[:, (edge_index < 300).all(0)]
    torch.testing.assert_close(exported.module()(x[:300], subgraph), module(x[:300], subgraph))


def test_the_model_runs_in_bfloat16(data):
    x, edge_index, _ = data
    module = APGCN(x.shape[1], 16, 7).eval()
    with torch.autocast("cpu", torch.bfloat16):
        output = module(x, edge_index)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.float(), module(x, edge_index), rtol=0.1, atol=0.05)


def test_any_operator_may_be_the_propagation_step(data):
    geometric = pytest.importorskip("torch_geometric.nn")
    x, edge_index, _ = data
    for operator in (geometric.GCNConv(7, 7), geometric.SAGEConv(7, 7), lambda z, edges: z):
        conv = APGCNConv(7, max_steps=3, operator=operator)
        assert conv(x[:, :7], edge_index).shape == (len(x), 7)
    unchanged = APGCNConv(7, operator=lambda z, edges: z)(x[:, :7], edge_index)
    torch.testing.assert_close(unchanged, x[:, :7])  # with the identity as operator
    model = geometric.Sequential(
        "x, edge_index", [(nn.Linear(x.shape[1], 7), "x -> x"), (APGCNConv(7), "x, edge_index -> x")]
    )
    assert model(x, edge_index).shape == (len(x), 7)


def test_a_training_loop_as_in_the_documentation_of_pytorch_geometric(data):
    x, edge_index, y = data
    train = torch.zeros(len(x), dtype=torch.bool)
    train[::5] = True
    torch.manual_seed(0)
    model = APGCN(x.shape[1], 16, 7)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, weight_decay=5e-4)
    for _ in range(50):
        model.train()
        optimizer.zero_grad()
        out = model(x, edge_index)
        functional.cross_entropy(out[train], y[train]).backward()
        optimizer.step()
    model.eval()
    accuracy = (model(x, edge_index).argmax(-1)[~train] == y[~train]).float().mean()
    assert accuracy > 0.7


def test_repr():
    assert repr(APGCN(1433, 64, 7)) == "APGCN(1433, 64, 7, max_steps=10)"
    assert repr(APGCNConv(7)) == "APGCNConv(7, max_steps=10, operator=GCNPropagation(dropout=0.0))"


def test_reset_parameters_restores_the_initial_bias():
    conv = APGCNConv(4, operator=nn.Identity())
    conv.halting_unit.bias.data.fill_(5)
    conv.reset_parameters()
    assert conv.halting_unit.bias.item() == pytest.approx(-(torch.tensor(10.0).log().item()))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ((torch.zeros(3, 4),), "edge_index must hold integers"),
        ((PATH, torch.ones(3)), "one weight for each of 4 edges"),
        ((torch.eye(3).to_sparse(), torch.ones(3)), "edge_weight must be None beside a sparse matrix"),
        ((torch.eye(4).to_sparse(),), "the sparse matrix must be 3 x 3"),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_invalid_edges_are_rejected(edges, message):
    with pytest.raises(InvalidInput, match=message):
        APGCNConv(2)(torch.ones(3, 2), *edges)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_row_of_a_sparse_matrix_lists_the_in_neighbours():
    """One edge, of weight 3, from node 0 to node 1, its only in-neighbour: z_1' = z_1 / 4 + 3 z_0 / sqrt(4)."""
    x = torch.tensor([[1.0], [0.0]])
    matrix = torch.sparse_coo_tensor([[1], [0]], [3.0], (2, 2), check_invariants=True)
    edge_index = torch.tensor([[0], [1]])
    weights = torch.tensor([3.0]), torch.tensor([3])
    for edges in ((matrix,), (matrix.to_sparse_csr(),), *((edge_index, weight) for weight in weights)):
        torch.testing.assert_close(GCNPropagation()(x, *edges), torch.tensor([[1.0], [1.5]]))


def test_invalid_arguments_are_rejected():
    edges = torch.tensor([[0], [1]])
    with pytest.raises(InvalidInput, match=r"x must have shape \(..., nodes, 8\), got \(2, 16\)"):
        APGCNConv(8)(torch.ones(2, 16), edges)
    with pytest.raises(InvalidInput, match=r"operator must keep the shape \(2, 4\), got \(2, 3\)"):
        APGCNConv(4, operator=lambda x, edge_index: x[:, :3])(torch.ones(2, 4), edges)
    with pytest.raises(InvalidInput, match="operator must be callable"):
        APGCNConv(4, operator="gcn")
    with pytest.raises(InvalidInput, match="out_channels must be an integer"):
        APGCN(3, 4, 2.5)
