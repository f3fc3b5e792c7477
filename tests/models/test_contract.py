"""What every model of the catalogue promises, walked through one by one."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from helpers.graphs import random_graph
from scipy import sparse
from torch.profiler import ProfilerActivity, profile

from apgcn import Graph, Run, Split, benchmark_runs, clean, load, train
from apgcn.data import CATALOGUE
from apgcn.data.splits import TEST_SEEDS
from apgcn.errors import InvalidInput, UnknownName
from apgcn.models.presets import KINDS, preset_values, presets_for
from apgcn.models.registry import MODELS, count_weights
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training.batching import bytes_per_run
from apgcn.training.config import TrainingConfig, preset_config
from apgcn.training.loss import Nodes, objective
from apgcn.training.trainer import train_batch

NODES = 30
TRAINED = [name for name, kind in MODELS.items() if kind.has_weights]


def config_class(name):
    """Small networks: what is promised does not depend on their size."""
    names = {field.name for field in fields(MODELS[name])}
    return MODELS[name](**{"hidden_channels": 4} if "hidden_channels" in names else {})


@pytest.fixture(scope="module")
def graph() -> Graph:
    made = random_graph(NODES, edges=40)
    assert (made.adjacency.sum(1) == 0).any()  # an isolated node is in it
    return made


def runs_of(graph, count):
    random = np.random.default_rng(0)
    splits = []
    for seed in range(count):
        nodes = random.permutation(graph.num_nodes)
        splits.append(Split(train=nodes[:9], stopping=nodes[9:18], test=nodes[18:], seed=seed))
    return [Run(split, dataset=graph.name) for split in splits]


def answered(name, graph, tensors, z0=(1, 2, 3)):
    """Logits of a pack, whichever kind of model it is."""
    if MODELS[name].has_weights:
        with torch.no_grad():
            rng = RandomStream(z0, device=tensors.labels.device)
            return config_class(name).build(tensors, rng)(tensors).output
    train_nodes = torch.as_tensor(np.stack([run.split.train for run in runs_of(graph, len(z0))]))
    return config_class(name).solve(tensors, train_nodes.to(tensors.labels.device)).output


@pytest.mark.parametrize("name", MODELS)
def test_shapes_over_the_run_axis(name, graph):
    tensors = DeviceGraph.of(graph)
    assert answered(name, graph, tensors).shape == (3, NODES, 3)
    if MODELS[name].has_weights:
        config = config_class(name)
        network = config.build(tensors, RandomStream([1, 2, 3]))
        assert all(len(parameter) == 3 for parameter in network.parameters())
        outcome = network(tensors, RandomStream([4, 5, 6]))
        assert outcome.steps.shape == outcome.remainder.shape == (3, NODES)
        assert 1 <= outcome.steps.min()
        assert outcome.steps.max() <= config.max_steps
        assert set(network.l2_parameters()) <= set(network.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_pack_of_three_equals_three_singles(name, graph):
    """To rounding: the loss of every epoch, and what comes out."""
    runs, training = runs_of(graph, 3), TrainingConfig(max_epochs=6, patience=6)
    together = train(graph, runs, config_class(name), training)
    for run, packed in zip(runs, together, strict=True):
        (alone,) = train(graph, [run], config_class(name), training)
        np.testing.assert_allclose(packed.history.training_loss, alone.history.training_loss, rtol=1e-4)
        np.testing.assert_allclose(packed.logits, alone.logits, rtol=1e-3, atol=1e-4)
        assert packed.steps.tolist() == alone.steps.tolist()


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_every_weight_gets_a_finite_gradient_and_its_own_runs_only(name, graph, as_sparse):
    if as_sparse:
        graph = replace(graph, features=sparse.csr_matrix(graph.features))
    tensors = DeviceGraph.of(graph)
    network = config_class(name).build(tensors, RandomStream([1, 2]))
    for parameter in network.parameters():  # away from where a start at zero has no gradient
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    nodes = Nodes.of([run.split.train for run in runs_of(graph, 2)], tensors.labels, what="training")
    value = objective(network, network(tensors, RandomStream([3, 4])), nodes, l2=0.01)
    assert value.shape == (2,)
    value[1].backward()
    for weight_name, parameter in network.named_parameters():
        assert parameter.grad is not None, weight_name
        assert parameter.grad.isfinite().all(), weight_name
        assert (parameter.grad[0] == 0).all(), weight_name  # the first run has no part in it
        assert (parameter.grad[1] != 0).any(), weight_name


@pytest.mark.parametrize("name", MODELS)
def test_renaming_nodes_renames_answers(name, graph):
    order = np.random.default_rng(1).permutation(NODES)
    renamed = Graph(
        graph.adjacency[order][:, order], features=graph.features[order], labels=graph.labels[order], name=graph.name
    )
    if MODELS[name].has_weights:
        before, after = (answered(name, one, DeviceGraph.of(one)) for one in (graph, renamed))
    else:
        z0 = torch.arange(9)[None]
        place = torch.as_tensor(np.argsort(order))
        before = config_class(name).solve(DeviceGraph.of(graph), z0).output
        after = config_class(name).solve(DeviceGraph.of(renamed), place[z0]).output
    torch.testing.assert_close(after, before[:, order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_an_isolated_node_hears_nobody(name, graph):
    """Its answer is the one that it has in a graph of its own, and it has one."""
    alone = int(np.flatnonzero(graph.adjacency.sum(1) == 0)[0])
    single = Graph(sparse.csr_matrix((1, 1)), features=graph.features[[alone]], labels=np.array([2]), name="single")
    among, apart = (answered(name, one, DeviceGraph.of(one)) for one in (graph, single))
    assert among.isfinite().all()
    torch.testing.assert_close(among[:, [alone]], apart, rtol=1e-4, atol=1e-5)


def test_an_isolated_node_is_answered_without_weights_too(graph):
    assert answered("btfp", graph, DeviceGraph.of(graph)).isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_sparse_and_dense_features_give_the_same(name, graph):
    thin = replace(graph, features=sparse.csr_matrix(graph.features))
    dense, as_sparse = (answered(name, one, DeviceGraph.of(one)) for one in (graph, thin))
    torch.testing.assert_close(as_sparse, dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_weights_can_be_saved_and_loaded(name, graph, tmp_path):
    from safetensors.torch import load_file

    from apgcn._utils.atomic import new_folder
    from apgcn.training.outputs import save

    results = train(graph, runs_of(graph, 2), config_class(name), TrainingConfig(max_epochs=3))
    with new_folder(tmp_path / "kept") as folder:
        save(folder, results, {})
    tensors = DeviceGraph.of(graph)
    network = config_class(name).build(tensors, RandomStream([8, 9]))
    network.load_state_dict(load_file(tmp_path / "kept" / "weights.safetensors"))
    with torch.no_grad():
        again = network(tensors).output.numpy()
    np.testing.assert_allclose(again, np.stack([result.logits for result in results]), rtol=1e-4, atol=1e-5)


def test_what_has_no_weights_is_saved_without_them(graph, tmp_path):
    from safetensors.torch import load_file

    from apgcn._utils.atomic import new_folder
    from apgcn.training.outputs import save

    results = train(graph, runs_of(graph, 2), config_class("btfp"))
    with new_folder(tmp_path / "kept") as folder:
        save(folder, results, {})
    assert load_file(tmp_path / "kept" / "weights.safetensors") == {}
    assert np.load(tmp_path / "kept" / "nodes.npz")["logits"].shape == (2, NODES, 3)


@pytest.mark.parametrize("name", TRAINED)
def test_the_same_run_gives_the_same_bits(name, graph):
    one, two = (train(graph, runs_of(graph, 2), config_class(name), TrainingConfig(max_epochs=4)) for _ in range(2))
    for first, second in zip(one, two, strict=True):
        assert first.logits.tobytes() == second.logits.tobytes()


@pytest.mark.parametrize("name", TRAINED)
def test_every_model_learns(name, graph):
    """The training loss falls; without dropout, so that it must."""
    rates = {field.name: 0.0 for field in fields(MODELS[name]) if field.name.endswith("dropout")}
    config = replace(config_class(name), **rates)
    (result,) = train(graph, runs_of(graph, 1), config, TrainingConfig(max_epochs=40, patience=40, l2=0.0))
    assert result.history.training_loss[-1] < 0.9 * result.history.training_loss[0]


@pytest.mark.parametrize("name", MODELS)
def test_memory_is_estimated_from_above_and_not_by_far(name):
    """Against what PyTorch's profiler saw allocated at once, on a processor."""
    cora, config = clean(load("cora")), MODELS[name](**({"rounds": 1} if name == "btfp" else {}))
    tensors = DeviceGraph.of(cora)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        train_batch(tensors, benchmark_runs(cora, 6), config, TrainingConfig(max_epochs=2))
    events = [event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    estimate = 6 * bytes_per_run(cora, config, torch.device("cpu")) + 4 * config.floats_shared(cora)
    assert held.max() < estimate < 5 * held.max()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", MODELS)
def test_memory_is_estimated_from_above_on_a_gpu(name):
    """Beside what its libraries allocate once."""
    cora, config = clean(load("cora")), MODELS[name]()
    train(cora, benchmark_runs(cora, 1), config, TrainingConfig(max_epochs=1), device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    train(cora, benchmark_runs(cora, 40), config, TrainingConfig(max_epochs=2), device="cuda")
    allocated = torch.cuda.max_memory_allocated() - before
    runs = 40 if config.has_weights else 20  # one for each split
    estimate = runs * bytes_per_run(cora, config, torch.device("cuda")) + 4 * config.floats_shared(cora)
    print(f"{name}: estimated {estimate / allocated:.2f} times what was allocated")
    assert allocated < estimate


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", MODELS)
def test_a_gpu_gives_the_same_up_to_rounding(name, graph):
    here, there = (answered(name, graph, DeviceGraph.of(graph, device=device)).cpu() for device in ("cpu", "cuda"))
    torch.testing.assert_close(there, here, rtol=1e-3, atol=1e-4)
    training = TrainingConfig(max_epochs=6, patience=6)
    on_cpu, on_gpu = (train(graph, runs_of(graph, 3), config_class(name), training, device=d) for d in ("cpu", "cuda"))
    for one, other in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(other.history.training_loss, one.history.training_loss, rtol=1e-3)


# --- settings ---


@pytest.mark.parametrize("dataset", CATALOGUE)
@pytest.mark.parametrize("name", MODELS)
def test_every_setting_has_a_source(name, dataset):
    """Of every kind that there is: all of the model's own settings, and all of its training where it is trained."""
    assert presets_for(MODELS[name], dataset)
    own = {field.name for field in fields(MODELS[name])}
    training = {field.name for field in fields(TrainingConfig)} if MODELS[name].has_weights else set()
    for kind in presets_for(MODELS[name], dataset):
        given = preset_values(MODELS[name], dataset, kind)
        assert given.keys() == own | training
        assert all(sourced.source for sourced in given.values())


def test_the_published_settings_are_the_published_ones():
    """Typed here once more, so that a slip in a model's file shows."""
    expected = {
        "vgcn": {
            "hidden_channels": 16,
            "l2": 5e-4,
            "edge_dropout": 0.0,
            "patience": 10,
            "early_stop_mode": "loss",
            "max_epochs": 200,
        },
        "gcn": {"hidden_channels": 64, "l2": 0.02, "edge_dropout": 0.5, "dropout": 0.5},
        "ngcn": {"hidden_channels": 16, "heads": 4, "least_power": 0, "most_power": 4, "l2": 1e-5},
        "gat": {"heads": 8, "hidden_channels": 8, "dropout": 0.6, "l2": 0.01},
        "jk": {"layers": 3, "hidden_channels": 64, "l2": 1e-3, "dropout": 0.5},
        "btfp": {"teleport": 0.2, "max_steps": 10, "rounds": 10, "growth": 0.1},
        "ppnp": {"hidden_channels": 64, "l2": 0.005, "dropout": 0.5, "matrix_dropout": 0.5, "teleport": 0.1},
        "appnp": {
            "hidden_channels": 64,
            "l2": 0.005,
            "dropout": 0.5,
            "edge_dropout": 0.5,
            "max_steps": 10,
            "teleport": 0.1,
        },
        "arma": {"hidden_channels": 16, "stacks": 2, "depth": 1, "dropout": 0.5, "skip_dropout": 0.75, "l2": 1e-4},
        "cheb": {"hidden_channels": 16, "order": 3, "dropout": 0.5, "l2": 5e-4},
    }
    for name, values in expected.items():
        model, training = preset_config("cora_ml", model=name, kind="published")
        if name not in ("vgcn", "btfp"):  # the program behind the published numbers
            assert (training.patience, training.monitor, training.early_stop_mode) == (100, "regularised", "tie")
        assert {**vars(model), **vars(training)}.items() >= values.items(), name


def test_what_the_papers_authors_ran_is_what_the_paper_says():
    for name in ("gcn", "gat", "appnp", "arma", "apgcn"):
        model, training = preset_config("amazon_photo", model=name)
        assert (training.l2, training.learning_rate, model.dropout) == (0.0, 0.01, 0.5)
        assert model.hidden_channels * getattr(model, "heads", 1) == 64
    for name in ("ppnp", "appnp"):
        assert preset_config("amazon_photo", model=name)[0].teleport == 0.2
        assert preset_config("ms_academic", model=name)[0].teleport == 0.2
        assert preset_config("pubmed", model=name)[0].teleport == 0.1
    arma, training = preset_config("cora_ml", model="arma")
    assert (arma.hidden, arma.dropout, training.l2, training.early_stop_mode) == (64, 0.5, 0.008, "either")


def test_models_that_the_paper_did_not_run_on_amazon_go_without_l2_there():
    for name in ("ngcn", "jk", "ppnp", "cheb"):
        usual, published = (preset_config("amazon_photo", model=name, kind=kind) for kind in (None, "published"))
        assert usual[1] == replace(published[1], l2=0.0, monitor="stopping", early_stop_mode="either")
        assert replace(usual[0], **({"teleport": 0.1} if name == "ppnp" else {})) == published[0]


def test_the_kind_behind_the_papers_tables_comes_first():
    """What its authors ran themselves, and otherwise what was published with the numbers that they copied."""
    from apgcn.benchmark.published import ACCURACIES, OWN

    for (dataset, model), cell in ACCURACIES.items():
        assert presets_for(MODELS[model], dataset)[0] == ("paper" if cell.source == OWN else "published")


def test_kinds_are_never_mixed():
    """A setting of one kind is not filled in from another."""
    paper, published = (preset_values(MODELS["gcn"], "amazon_photo", kind) for kind in ("paper", "published"))
    assert (paper["l2"].value, published["l2"].value) == (0.0, 0.02)
    assert paper["l2"].source != published["l2"].source
    assert set(KINDS) == {"published", "paper", "tuned"}


def test_weights_are_counted_by_building():
    """GCN on Cora: 1433 x 64 + 64, then 64 x 7 + 7."""
    assert count_weights(MODELS["gcn"](), features=1433, classes=7) == 1433 * 64 + 64 + 64 * 7 + 7
    assert count_weights(MODELS["btfp"](), features=1433, classes=7) == 0


def test_a_model_without_weights_has_one_run_per_split():
    from apgcn.benchmark.config import RunConfig

    keys = RunConfig.from_preset("cora_ml", "btfp").first_runs(100)
    assert [key.split for key in keys] == list(TEST_SEEDS)
    assert {key.init for key in keys} == {0}


def test_a_mistyped_setting_is_told_in_words():
    for words in ({"penatly": 0.5}, {"settings": "paper"}, {"model": "gat", "penalty": 3}):
        with pytest.raises(UnknownName, match="unknown setting of "):
            preset_config("cora", **words)


@pytest.mark.parametrize("words", [{"kind": 5}, {"model": ["gcn"]}, {"kind": "publisht"}])
def test_what_cannot_be_a_name_is_told_in_words(words):
    with pytest.raises(UnknownName, match=r"unknown (kind of settings|model) "):
        preset_config("cora", **words)


def test_records_of_a_model_that_is_gone_can_be_read(tmp_path):
    """Somebody's own model, recorded with defaults that nobody here knows: it does not lock the others in."""
    from helpers.fake_records import keep

    from apgcn.benchmark.config import RunConfig
    from apgcn.benchmark.store import Store

    store = Store(tmp_path)
    keep(store, RunConfig.from_preset("cora", "gcn"), [0.8])
    lines = (tmp_path / "runs.jsonl").read_text()
    foreign = lines.replace('"gcn"', '"mine"').replace("cora/gcn/", "cora/mine/").replace("-gcn-", "-mine-")
    (tmp_path / "runs.jsonl").write_text(lines + foreign)
    assert sorted(record.model for record in Store(tmp_path).records.values()) == ["gcn", "mine"]


@pytest.mark.parametrize("name", TRAINED)
def test_numbers_of_numpy_are_as_good_as_pythons(name, graph):
    """`for hidden in np.array([16, 32])` is everyday use."""
    own = config_class(name)
    kinds = {bool: np.bool_, int: np.int64, float: np.float32}
    numpys = replace(own, **{key: kinds[type(value)](value) for key, value in vars(own).items()})
    short = TrainingConfig(max_epochs=2)
    as_numpy = TrainingConfig(max_epochs=np.int32(2), l2=np.float64(short.l2))
    (expected,), (found,) = (
        train(graph, runs_of(graph, 1), own, short),
        train(graph, runs_of(graph, 1), numpys, as_numpy),
    )
    np.testing.assert_allclose(found.logits, expected.logits, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_trained_is_told_in_words(graph):
    for words, sentence in (
        (("cora", runs_of(graph, 1), config_class("gcn")), "graph must be a Graph"),
        ((graph, runs_of(graph, 1), config_class("gcn"), {"max_epochs": 2}), "training must be TrainingSettings"),
    ):
        with pytest.raises(InvalidInput, match=sentence):
            train(*words)


@pytest.mark.parametrize("name", MODELS)
def test_memory_counts_classes(name):
    """A graph with many classes and little else."""
    few, many = (
        Graph(np.eye(50), features=np.ones((50, 3)), labels=np.arange(50) % 3, class_names=[*map(str, range(classes))])
        for classes in (3, 3000)
    )
    config = MODELS[name]()
    assert config.floats_per_run(many) > config.floats_per_run(few) + 10 * 50 * 2997
