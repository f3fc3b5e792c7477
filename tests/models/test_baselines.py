"""Every baseline against something obtained another way: PyTorch Geometric's layers, a closed form, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph
from scipy import sparse
from torch.nn import functional

from apgcn import Graph, benchmark_runs, clean, load
from apgcn.errors import FitWarning, InvalidInput
from apgcn.models.appnp import APPNPConfig
from apgcn.models.arma import ARMAConfig
from apgcn.models.btfp import BtFPConfig, add_confident_labels, diffuse_features, ridge_regression
from apgcn.models.cheb import ChebConfig
from apgcn.models.dagnn import DAGNNConfig
from apgcn.models.gat import GATConfig
from apgcn.models.gcn import GCNConfig
from apgcn.models.gprgnn import GPRGNNConfig
from apgcn.models.grand import GRANDConfig
from apgcn.models.jk import JKConfig
from apgcn.models.ndls import NDLSConfig, smooth_features
from apgcn.models.ngcn import NGCNConfig
from apgcn.models.ppnp import PPNPConfig, pagerank_matrix
from apgcn.models.registry import MODELS
from apgcn.models.sgc import SGCConfig
from apgcn.nn import halting
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.ops.sparse import edge_add, edge_softmax

FEATURES, CLASSES, NODES = 5, 3, 20


@pytest.fixture
def graph() -> DeviceGraph:
    return DeviceGraph.from_graph(random_graph(NODES, edges=30))


@pytest.fixture
def edges(graph):
    """(sources, targets) for PyTorch Geometric, without self-loops."""
    structure = graph.adjacency.structure
    between = structure.row != structure.col
    return torch.stack([structure.col[between], structure.row[between]])


def two_runs(config, graph):
    """A batch of two runs with biases and attentions that are not zero, as an error in them would not show."""
    model = config.build(graph, RandomStream([1, 2]))
    for number, parameter in enumerate(model.parameters()):
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
    return model


def set_parameters(module, **values):
    """Give a PyTorch Geometric layer our weights."""
    parameters = dict(module.named_parameters())
    assert parameters.keys() == values.keys()
    for name, tensor in values.items():
        parameters[name].data = tensor.reshape(parameters[name].shape)


def compare(model, graph, reference):
    """The output of two runs with that of `reference(run)`."""
    torch.testing.assert_close(model(graph).output, torch.stack([reference(run) for run in range(2)]))


def test_gcn_agrees_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn import GCNConv

    model = two_runs(GCNConfig(hidden_channels=4), graph)

    def reference(run):
        first, second = GCNConv(FEATURES, 4), GCNConv(4, CLASSES)
        set_parameters(first, **{"bias": model.b_1[run], "lin.weight": model.w_1[run].T})
        set_parameters(second, **{"bias": model.b_2[run], "lin.weight": model.w_2[run].T})
        return second(first(graph.features, edges).relu(), edges)

    compare(model, graph, reference)


def test_gat_agrees_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn import GATConv

    model = two_runs(GATConfig(heads=2, hidden_channels=4), graph)

    def conv(layer, run, in_channels, out_channels, heads):
        module = GATConv(in_channels, out_channels, heads=heads)
        set_parameters(
            module,
            att_src=layer.att_src[run],
            att_dst=layer.att_dst[run],
            bias=layer.b[run],
            **{"lin.weight": layer.w[run].T},
        )
        return module

    def reference(run):
        first = conv(model.first, run, FEATURES, 4, 2)
        second = conv(model.second, run, 8, CLASSES, 1)
        return second(functional.elu(first(graph.features, edges)), edges)

    compare(model, graph, reference)


@pytest.mark.parametrize(("stacks", "depth"), [(1, 1), (3, 1), (2, 3)])
def test_arma_agrees_with_pytorch_geometric(graph, edges, stacks, depth):
    from torch_geometric.nn import ARMAConv

    model = two_runs(ARMAConfig(hidden_channels=4, stacks=stacks, depth=depth), graph)

    def conv(layer, run, in_channels, out_channels, act):
        module = ARMAConv(in_channels, out_channels, stacks, depth, shared_weights=True, act=act)
        weights = {"init_weight": layer.w_0[run], "root_weight": layer.v[run], "bias": layer.b[run]}
        weights["weight"] = layer.w[run] if depth > 1 else module.weight.data  # not used then
        set_parameters(module, **weights)
        return module

    def reference(run):
        first = conv(model.first, run, FEATURES, 4, torch.nn.ReLU())
        second = conv(model.second, run, 4, CLASSES, None)
        return second(first(graph.features, edges), edges)

    compare(model, graph, reference)


def test_jk_agrees_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn import GCN

    model = two_runs(JKConfig(layers=3, hidden_channels=4), graph)

    def reference(run):
        module = GCN(FEATURES, 4, num_layers=3, out_channels=CLASSES, jk="cat")
        layers = {f"convs.{layer}.bias": model.b[layer][run] for layer in range(3)}
        layers |= {f"convs.{layer}.lin.weight": model.w[layer][run].T for layer in range(3)}
        set_parameters(module, **layers, **{"lin.weight": model.last.weight[run].T, "lin.bias": model.last.bias[run]})
        return module(graph.features, edges)

    compare(model, graph, reference)


@pytest.mark.parametrize("as_sparse", [True, False])
def test_jk_with_features_of_length_one(as_sparse):
    """As on a graph whose features were scaled before; a node without features keeps none."""
    graph = random_graph(NODES, edges=30)
    features = np.array(graph.features.todense() if sparse.issparse(graph.features) else graph.features)
    features[3] = 0
    scaled = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    graphs = (replace(graph, features=sparse.csr_matrix(x) if as_sparse else x) for x in (features, scaled))
    raw, before = map(DeviceGraph.from_graph, graphs)
    by_model = two_runs(JKConfig(hidden_channels=4, feature_norm="l2"), raw)(raw).output
    assert by_model.isfinite().all()
    torch.testing.assert_close(by_model, two_runs(JKConfig(hidden_channels=4), before)(before).output)
    with pytest.raises(InvalidInput, match="feature_norm must be one of l1, l2, got 'l3'"):
        JKConfig(feature_norm="l3")


@pytest.mark.parametrize("order", [1, 2, 4])
def test_cheb_agrees_with_pytorch_geometric(graph, edges, order):
    from torch_geometric.nn import ChebConv

    model = two_runs(ChebConfig(hidden_channels=4, order=order), graph)

    def conv(layer, run, in_channels, out_channels):
        module = ChebConv(in_channels, out_channels, K=order + 1)
        set_parameters(module, bias=layer.b[run], **{f"lins.{k}.weight": layer.w[run, k].T for k in range(order + 1)})
        return module

    def reference(run):
        first, second = conv(model.first, run, FEATURES, 4), conv(model.second, run, 4, CLASSES)
        return second(first(graph.features, edges).relu(), edges)

    compare(model, graph, reference)


def test_appnp_converges_to_ppnp(graph):
    steps = two_runs(APPNPConfig(hidden_channels=8, teleport=0.2, max_steps=200), graph)
    limit = two_runs(PPNPConfig(hidden_channels=8, teleport=0.2), graph)
    limit.load_state_dict(steps.state_dict())
    torch.testing.assert_close(limit(graph).output, steps(graph).output)


def test_appnp_agrees_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn import APPNP

    model = two_runs(APPNPConfig(hidden_channels=8, teleport=0.15, max_steps=7), graph)
    z0 = model.predict(graph.features)
    compare(model, graph, lambda run: APPNP(K=7, alpha=0.15)(z0[run], edges))


def test_matrix_dropout_of_ppnp_applies_to_the_inverse(graph):
    """With everything else off, the mean of many draws is the output without dropout, and no two are alike."""
    model = PPNPConfig(hidden_channels=8, dropout=0.0).build(graph, RandomStream([1]))
    rng, nodes = RandomStream([5]), torch.arange(NODES)[None]
    for draw in (lambda: model(graph, rng).output, lambda: model.forward_nodes(nodes, graph, rng).output):
        drawn = torch.stack([draw() for _ in range(2000)])
        spread = drawn.std(0) / 2000**0.5
        assert ((drawn.mean(0) - model(graph).output).abs() < 5 * spread + 1e-6).all()
        assert (spread > 0).all()


def test_forward_nodes_of_ppnp_agrees_with_forward(graph):
    """Without dropout of the matrix."""
    model = two_runs(PPNPConfig(hidden_channels=8, matrix_dropout=0.0), graph)
    nodes = torch.tensor([[3, 5], [0, 7]])
    partial = model.forward_nodes(nodes, graph, RandomStream([8, 9])).output
    full = model(graph, RandomStream([8, 9])).output
    for run in range(2):
        torch.testing.assert_close(partial[run], full[run, nodes[run]])


def test_ppnp_rejects_a_graph_that_does_not_fit_into_memory():
    nodes = 5_000_000
    large = Graph(sparse.csr_matrix((nodes, nodes)), features=np.ones((nodes, 1)), labels=np.arange(nodes) % 2)
    graph = DeviceGraph.from_graph(large)
    with pytest.raises(InvalidInput, match=r"5,000,000 x 5,000,000 numbers, which needs 300,000,000,000,000 bytes"):
        PPNPConfig().build(graph, RandomStream([1]))


def test_the_pagerank_matrix_is_the_closed_form(graph):
    a = (graph.adjacency.normalized @ torch.eye(NODES)[None])[0]
    expected = 0.3 * torch.linalg.inv(torch.eye(NODES) - 0.7 * a)
    torch.testing.assert_close(pagerank_matrix(graph.adjacency, 0.3), expected)


def test_the_pagerank_matrix_is_cached_for_a_graph_and_a_teleport(graph):
    first = pagerank_matrix(graph.adjacency, 0.3)
    assert pagerank_matrix(graph.adjacency, 0.3) is first
    assert not torch.allclose(pagerank_matrix(graph.adjacency, 0.2), first)
    torch.testing.assert_close(
        pagerank_matrix(DeviceGraph.from_graph(random_graph(NODES, edges=30)).adjacency, 0.3), first
    )


@pytest.mark.parametrize("teleport", [0.0, 1e-5])
def test_ppnp_rejects_a_teleport_that_makes_the_matrix_singular(teleport):
    with pytest.raises(InvalidInput, match=r"teleport must be at least 0\.001 for the matrix to be invertible, got "):
        PPNPConfig(teleport=teleport)


def test_ngcn_with_one_head_of_power_one_is_a_gcn(graph):
    model = two_runs(NGCNConfig(hidden_channels=4, heads=1, min_power=1, max_power=1), graph)
    gcn = two_runs(GCNConfig(hidden_channels=4), graph)
    gcn.w_1.data, gcn.b_1.data = model.w.data[:, 0], model.b.data[:, 0]
    gcn.w_2.data, gcn.b_2.data = model.v.data[:, 0], model.c.data[:, 0]
    torch.testing.assert_close(model(graph).output, gcn(graph).output.log_softmax(-1))  # the same probabilities


def test_ngcn_merges_gcns_over_powers_of_the_matrix(graph):
    """Dense, GCN by GCN: two heads of each power from 0 to 3."""
    model = two_runs(NGCNConfig(hidden_channels=4, heads=2, max_power=3), graph)
    a = (graph.adjacency.normalized @ torch.eye(NODES)[None])[0]
    merged = 0
    for gcn in range(8):
        power = torch.linalg.matrix_power(a, gcn // 2)
        h = (power @ graph.features @ model.w[:, gcn] + model.b[:, gcn]).relu()
        z = power @ h @ model.v[:, gcn] + model.c[:, gcn]
        merged = merged + torch.softmax(model.attention, 1)[:, gcn, None, None] * z.softmax(-1)
    torch.testing.assert_close(model(graph).output.exp(), merged)


def test_edge_softmax_equals_a_dense_softmax_and_its_gradients_finite_differences(graph):
    structure = graph.adjacency.structure
    scores = 30 * torch.randn(2, structure.nnz, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    dense = torch.full((2, NODES, NODES), -torch.inf, dtype=torch.float64)
    dense[:, structure.row, structure.col] = scores
    torch.testing.assert_close(edge_softmax(structure, scores), dense.softmax(-1)[:, structure.row, structure.col])
    scores = (scores / 10).requires_grad_()
    assert torch.autograd.gradcheck(lambda scores: edge_softmax(structure, scores), scores)


def test_gradients_of_edge_add_equal_finite_differences():
    structure = DeviceGraph.from_graph(random_graph(6, edges=7)).adjacency.structure
    rows, columns = torch.randn(2, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).unbind()
    edge_sums = edge_add(structure, rows, columns)
    torch.testing.assert_close(edge_sums[1, 3], rows[1, structure.row[3]] + columns[1, structure.col[3]])
    arguments = rows.requires_grad_(), columns.requires_grad_()
    assert torch.autograd.gradcheck(lambda rows, columns: edge_add(structure, rows, columns), arguments)


# --- Bt.FP ---


def path_of_four() -> DeviceGraph:
    """0 - 1 - 2 - 3: the ends have different features, the middle none."""
    path = np.diag(np.ones(3), 1)
    features = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    return DeviceGraph.from_graph(Graph(path + path.T, features=features, labels=np.array([0, 0, 1, 1])))


def test_diffused_features_by_hand():
    """One step with return probability 0.2 on the path: degrees with self-loops 2, 3, 3, 2."""
    graph = path_of_four()
    f = diffuse_features(graph, teleport=0.2, steps=1)
    edge = 0.8 / 6**0.5
    expected = torch.tensor([[0.2 + 0.4, 0.0], [edge, 0.0], [0.0, edge], [0.0, 0.2 + 0.4]])
    torch.testing.assert_close(f.float(), functional.normalize(expected))


def test_ridge_regression_equals_the_closed_form(graph):
    f = diffuse_features(graph, teleport=0.2, steps=3)
    known = torch.full((2, NODES), -1)
    known[0, [0, 3, 5]], known[1, [2, 7, 9, 11]] = torch.tensor([0, 2, 1]), torch.tensor([1, 1, 0, 2])
    weights = ridge_regression(f, known, f.new_zeros(FEATURES, 2, CLASSES), strength=0.5)
    for run in range(2):
        labelled = known[run] >= 0
        x, y = f[labelled], torch.eye(CLASSES).double()[known[run][labelled]]
        expected = torch.linalg.solve(x.T @ x + 0.5 * torch.eye(FEATURES), x.T @ y)
        torch.testing.assert_close(weights[:, run], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strength", [1e-13, float("nan")])
def test_conjugate_gradients_that_do_not_converge_are_reported(strength):
    """Features of rapidly decreasing singular values: without regularisation the problem is ill-conditioned."""
    generator = torch.Generator().manual_seed(0)
    random = torch.rand(400, 400, dtype=torch.float64, generator=generator)
    f = torch.linalg.qr(random).Q * torch.logspace(0, -6, 400, dtype=torch.float64)
    known = (torch.rand(1, 400, generator=generator) < 0.5).long()
    with pytest.raises(InvalidInput, match="make ridge larger"):
        ridge_regression(f, known, f.new_zeros(400, 1, 2), strength=strength)


def test_a_column_that_has_converged_is_not_updated_while_others_iterate(monkeypatch):
    """A run with twelve labelled nodes, beside one with sixty, which takes more iterations."""
    monkeypatch.setattr("apgcn.models.btfp.CHECK_INTERVAL", 1)
    generator = torch.Generator().manual_seed(0)
    f = functional.normalize(torch.rand(60, 20, dtype=torch.float64, generator=generator))
    easy, hard = torch.full((1, 60), -1), torch.arange(60)[None] % 2
    easy[0, :12] = torch.arange(12) % 2
    alone = ridge_regression(f, easy, f.new_zeros(20, 1, 2), strength=0.3)
    together = ridge_regression(f, torch.cat([easy, hard]), f.new_zeros(20, 2, 2), strength=0.3)
    torch.testing.assert_close(together[:, 0], alone[:, 0], rtol=1e-13, atol=0)


def test_bootstrapping_does_not_depend_on_the_other_runs_of_the_batch():
    """On a real graph with 100 of its features, over ten rounds: a node added too early changes later rounds."""
    cora = clean(load("cora"))
    graph = DeviceGraph.from_graph(replace(cora, features=cora.features[:, :100]))
    train_nodes = torch.tensor(np.stack([run.split.train for run in benchmark_runs(cora, 2)]))
    together = BtFPConfig().solve(graph, train_nodes).output
    for run in range(2):
        alone = BtFPConfig().solve(graph, train_nodes[run : run + 1]).output
        torch.testing.assert_close(alone[0], together[run], rtol=0, atol=1e-5)


def test_nodes_of_lowest_entropy_are_added_in_proportion_to_the_predicted_classes():
    """Ten nodes, six predicted 0 and four predicted 1: half of each class, lowest entropy first, known ones kept."""
    margins = torch.tensor([9.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.5, 2.5, 3.5, 0.5])
    signs = torch.tensor([1.0] * 6 + [-1.0] * 4)
    scores = torch.stack([signs * margins, torch.zeros(10)], dim=1)[None]
    known = torch.full((1, 10), -1)
    known[0, 0] = 1  # a label that differs from the prediction
    extended = add_confident_labels(known, scores, growth=0.5)
    assert extended.tolist() == [[1, 0, 0, 0, -1, -1, -1, 1, 1, -1]]


def test_bootstrapping_by_hand_on_a_path():
    """Training nodes at the ends: the middle is labelled in the first round, each node like the nearer end."""
    graph = path_of_four()
    train_nodes = torch.tensor([[0, 3]])
    outcome = BtFPConfig(rounds=1, growth=0.5, ridge=1.0, max_steps=1).solve(graph, train_nodes)
    f = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # the directions of the test above
    # growth 0.5 of the two nodes of each class is one: nodes 1 and 2 are added, so each class has two nodes
    torch.testing.assert_close(outcome.output[0], 2 / (2 + 1.0) * f)
    alone = BtFPConfig(rounds=0, ridge=1.0, max_steps=1).solve(graph, train_nodes)
    torch.testing.assert_close(alone.output[0], 1 / (1 + 1.0) * f)


def test_bootstrapping_uses_the_labels_of_the_training_nodes_only(graph):
    """Neither those of the stopping nodes nor any other."""
    train_nodes = torch.tensor([[0, 1, 2, 3]])
    others = torch.ones(NODES, dtype=torch.bool).index_fill(0, train_nodes[0], False)
    changed = replace(graph, labels=torch.where(others, (graph.labels + 1) % CLASSES, graph.labels))
    assert torch.equal(BtFPConfig().solve(changed, train_nodes).output, BtFPConfig().solve(graph, train_nodes).output)


def test_bootstrapping_agrees_with_a_dense_loop_over_runs(graph):
    """The whole algorithm again, in numpy, one run and one node at a time."""
    config = BtFPConfig(rounds=3, growth=0.2, ridge=0.3)
    train_nodes = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7]])
    actual = config.solve(graph, train_nodes).output.numpy()

    a = (graph.adjacency.normalized @ torch.eye(NODES)[None])[0].double().numpy()
    x = graph.features.double().numpy()
    z = x
    for _ in range(10):
        z = 0.8 * a @ z + 0.2 * x
    f = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    for run in range(2):
        known = {node: int(graph.labels[node]) for node in train_nodes[run].tolist()}
        for round_index in range(4):
            nodes = list(known)
            y = np.eye(CLASSES)[[known[node] for node in nodes]]
            scores = f @ np.linalg.solve(f[nodes].T @ f[nodes] + 0.3 * np.eye(FEATURES), f[nodes].T @ y)
            scores[:, y.sum(0) == 0] = -1000
            if round_index == 3:
                break
            softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            entropy = -(softmax * np.log(np.maximum(softmax, 1e-300))).sum(1)
            predicted = scores.argmax(1)
            for label in range(CLASSES):
                count = round(0.2 * (predicted == label).sum())
                free = [node for node in range(NODES) if node not in known and predicted[node] == label]
                for node in sorted(free, key=lambda node: entropy[node])[:count]:
                    known[node] = label
        np.testing.assert_allclose(actual[run], scores, atol=1e-4)


@pytest.mark.parametrize("name", ["ap-appnp", "ap-arma"])
def test_adaptive_propagation_with_the_steps_of_a_baseline(name, graph):
    """Dense: z^k = 0.7 A z^(k-1) W + 0.3 z^0 V; APPNP: A with self-loops, W = V = I; ARMA: without, learned."""
    model = two_runs(MODELS[name](hidden_channels=8, teleport=0.3, max_steps=5), graph)
    model.propagation.halting_unit.bias.data.fill_(-0.7)
    if name == "ap-appnp":
        a, w, v = graph.adjacency.normalized, torch.eye(CLASSES), torch.eye(CLASSES)
    else:
        operator = model.propagation.operator
        a, w, v = graph.adjacency.normalized_without_self_loops, operator.w.softmax(1), operator.v.softmax(1)
        torch.testing.assert_close(w.sum(1), torch.ones(2, CLASSES))
    z = [model.predict(graph.features)]
    for _ in range(5):
        z.append(0.7 * a.to_dense() @ z[-1] @ w + 0.3 * z[0] @ v)
    unit = model.propagation.halting_unit
    h = torch.stack([torch.sigmoid(z_k @ unit.weight + unit.bias)[..., 0] for z_k in z[1:]])
    steps = halting.halting_steps(h)
    weights = halting.step_weights(h, steps, halting.remainders(h, steps))
    actual = model(graph)
    assert 1 < steps.float().mean() < 5
    assert torch.equal(actual.steps, steps)
    torch.testing.assert_close(actual.output, halting.combine(torch.stack(z), weights, steps))


def test_every_weight_of_the_filter_of_ap_arma_has_a_gradient(graph):
    """Every entry of W and V."""
    model = two_runs(MODELS["ap-arma"](hidden_channels=8), graph)
    functional.cross_entropy(model(graph).output.flatten(0, 1), graph.labels.repeat(2)).backward()
    for weight in (model.propagation.operator.w, model.propagation.operator.v):
        assert (weight.grad != 0).all()


def test_a_class_without_training_nodes_is_never_predicted():
    """Where all other scores are negative, its score of zero would be the highest."""
    random = np.random.default_rng(0)
    isolated = Graph(
        sparse.csr_matrix((60, 60)),
        features=random.standard_normal((60, 8)),
        labels=np.arange(60) % 2,
        class_names=["a", "b", "unused"],
    )
    for rounds in (0, 3):
        outcome = BtFPConfig(rounds=rounds).solve(DeviceGraph.from_graph(isolated), torch.arange(20)[None])
        assert set(outcome.output[0].argmax(-1).tolist()) == {0, 1}


@pytest.mark.parametrize("ridge", [1e-12, 1e60])
def test_an_extreme_ridge_is_rejected(ridge):
    with pytest.raises(InvalidInput, match="ridge must be between 1e-09 and 1e\\+09, got "):
        BtFPConfig(ridge=ridge)


def test_features_that_overflow_are_rejected():
    star = sparse.csr_matrix(np.eye(4)[:, :1] @ np.ones((1, 4)))
    huge = Graph(star + star.T, features=np.full((4, 2), 3e38), labels=np.array([0, 1, 0, 1]))
    with pytest.raises(InvalidInput, match="features must be small enough"):
        BtFPConfig().solve(DeviceGraph.from_graph(huge), torch.tensor([[0, 1]]))


def normalized_adjacency(graph):
    """D^-1/2 (A + I) D^-1/2 as a dense matrix, from the adjacency matrix with self-loops alone."""
    structure = graph.adjacency.structure
    matrix = torch.zeros(structure.shape)
    matrix[structure.row, structure.col] = graph.adjacency.weights
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale


def test_sgc_agrees_with_pytorch_geometric(graph, edges):
    from torch_geometric.nn import SGConv

    model = two_runs(SGCConfig(max_steps=3), graph)

    def reference(run):
        layer = SGConv(FEATURES, CLASSES, K=3)
        set_parameters(layer, **{"lin.weight": model.w[run].T, "lin.bias": model.b[run]})
        return layer(graph.features, edges)

    compare(model, graph, reference)


def test_dagnn_is_its_equation_node_by_node(graph):
    """KDD 2020, equations 8 to 11: a score of every node and step, from that state, weighs the state in a sum."""
    model = two_runs(DAGNNConfig(hidden_channels=8, max_steps=4), graph)
    a, z0 = normalized_adjacency(graph), model.predict(graph.features)

    def reference(run):
        rows = []
        for node in range(NODES):
            total = torch.zeros(CLASSES)
            for k in range(5):
                z = (torch.linalg.matrix_power(a, k) @ z0[run])[node]
                total += torch.sigmoid(z @ model.score.weight[run, :, 0] + model.score.bias[run, 0, 0]) * z
            rows.append(total)
        return torch.stack(rows)

    compare(model, graph, reference)


def test_gprgnn_is_a_polynomial_of_the_adjacency_matrix(graph):
    model = two_runs(GPRGNNConfig(hidden_channels=8, max_steps=4), graph)
    a, z0 = normalized_adjacency(graph), model.predict(graph.features)

    def reference(run):
        powers = [torch.linalg.matrix_power(a, k) for k in range(5)]
        return sum(weight * power for weight, power in zip(model.gamma[run, :, 0], powers, strict=True)) @ z0[run]

    compare(model, graph, reference)


def test_gprgnn_begins_as_appnp(graph):
    """With the weights of personalised PageRank, and the same weights of the MLP."""
    seeds = [1, 2]
    ours = GPRGNNConfig(hidden_channels=8, teleport=0.2).build(graph, RandomStream(seeds))
    appnp = APPNPConfig(hidden_channels=8, teleport=0.2).build(graph, RandomStream(seeds))
    torch.testing.assert_close(ours(graph).output, appnp(graph).output)
    assert ours.gamma.sum(1).squeeze(1).tolist() == pytest.approx([1, 1])


@pytest.mark.parametrize("config", [SGCConfig(), DAGNNConfig(), GPRGNNConfig()], ids=lambda config: config.name)
def test_outputs_of_some_nodes_are_those_of_all(graph, config):
    model = two_runs(config, graph)
    nodes = torch.tensor([[3, 0, 19], [5, 6, 7]])
    torch.testing.assert_close(model.forward_nodes(nodes, graph).output, model(graph).select(nodes).output)


def test_ndls_smooths_a_path_of_four_nodes_as_worked_by_hand():
    """Nodes 1 - 2 - 3 - 4 with one feature each: with self-loops the degrees are 2, 3, 3, 2, and x^inf is their share.

    Distances to (0.2, 0.3, 0.3, 0.2) in steps 0, 1, ...: an end node starts at |(0.8, -0.3, -0.3, -0.2)| = 0.927, after
    one step it is at (1/2, 1/2, 0, 0), 0.510, after two at (5/12, 5/12, 1/6, 0), 0.346; an inner node starts at 0.812,
    is after one step at (1/3, 1/3, 1/3, 0), 0.245.
    """
    path = np.eye(4, k=1, dtype=np.float32) + np.eye(4, k=-1, dtype=np.float32)
    graph = DeviceGraph.from_graph(Graph(path, features=np.eye(4, dtype=np.float32), labels=np.array([0, 1, 0, 1])))
    smoothed = smooth_features(graph, NDLSConfig(max_steps=9, epsilon=0.4, teleport=0.1))
    assert smoothed.steps.tolist() == [2, 1, 1, 2]
    end = 0.9 * (np.array([1, 0, 0, 0]) + np.array([1 / 2, 1 / 2, 0, 0])) / 2 + 0.1 * np.array([1, 0, 0, 0])
    np.testing.assert_allclose(smoothed.features[0], end, rtol=1e-6)
    np.testing.assert_allclose(smoothed.features[1], [0, 1, 0, 0])
    assert smooth_features(graph, NDLSConfig(max_steps=9, epsilon=0.6)).steps.tolist() == [1, 1, 1, 1]
    assert smooth_features(graph, NDLSConfig(max_steps=9, epsilon=1.0)).steps.tolist() == [0, 0, 0, 0]
    assert smooth_features(graph, NDLSConfig(max_steps=3, epsilon=0.0)).steps.tolist() == [3, 3, 3, 3]


def test_ndls_smooths_every_node_by_its_own_number_of_steps(graph):
    """As a loop over nodes and steps with dense powers of the random walk's matrix."""
    config = NDLSConfig(max_steps=6, epsilon=0.2, teleport=0.15)
    structure = graph.adjacency.structure
    a = torch.zeros(structure.shape)
    a[structure.row, structure.col] = graph.adjacency.weights
    walk, degrees = a / a.sum(1, keepdim=True), a.sum(1)
    x = functional.normalize(graph.features, p=1)
    stationary = (degrees[:, None] * x).sum(0) / degrees.sum()
    smoothed = smooth_features(graph, config)
    for node in range(NODES):
        states = [(torch.linalg.matrix_power(walk, k) @ x)[node] for k in range(7)]
        close = [k for k in range(6) if (states[k] - stationary).norm() < 0.2]
        steps = close[0] if close else 6
        terms = [0.85 * state + 0.15 * x[node] for state in states[:steps]]
        expected = torch.stack(terms).mean(0) if steps else x[node]
        assert int(smoothed.steps[node]) == steps
        torch.testing.assert_close(smoothed.features[node], expected)
    assert len(smoothed.steps.unique()) > 2, "the test needs nodes that stop at different steps"


def test_grand_is_its_equation_with_dropped_nodes(graph):
    """Equations 1 to 3 with dense powers; in training nodes alone are dropped, by the masks of the stream."""
    config = GRANDConfig(hidden_channels=8, max_steps=4, dropout=0.0, input_dropout=0.0, node_dropout=0.5)
    model, a = two_runs(config, graph), normalized_adjacency(graph)
    mean = sum(torch.linalg.matrix_power(a, k) for k in range(5)) / 5

    def reference(run, features):
        hidden = (mean @ features @ model.first.weight[run] + model.first.bias[run]).relu()
        return hidden @ model.second.weight[run] + model.second.bias[run]

    compare(model, graph, lambda run: reference(run, graph.features))
    masks = RandomStream([3, 4]).dropout_mask(NODES, rate=0.5)
    assert set(masks.unique().tolist()) == {0.0, 2.0}
    expected = torch.stack([reference(run, masks[run, :, None] * graph.features) for run in range(2)])
    torch.testing.assert_close(model(graph, RandomStream([3, 4])).output, expected)


def test_ndls_warns_where_no_node_would_use_its_neighbours(graph):
    """Many dense features are short after the division by their l1 norm, and so near the stationary ones at once."""
    features = torch.randn(NODES, 768, generator=torch.Generator().manual_seed(0))
    wide = replace(graph, features=features)
    with pytest.warns(FitWarning, match=r"NDLS-F does not use the graph: .* epsilon=0\.04 .* try a smaller epsilon"):
        steps = smooth_features(wide, NDLSConfig(epsilon=0.04)).steps
    assert set(steps.tolist()) == {1, 199}  # 199: isolated nodes
    assert (smooth_features(wide, NDLSConfig(epsilon=0.003)).steps > 1).all()
