"""The contract that every model of the registry keeps, tested model by model."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from helpers.fake_records import add_fake_records
from helpers.graphs import random_graph
from scipy import sparse
from torch.profiler import ProfilerActivity, profile

from apgcn import Graph, Run, Split, benchmark_runs, clean, load, train
from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.progress import store_progress
from apgcn.benchmark.store import Store
from apgcn.data.splits import TEST_SEEDS
from apgcn.errors import InvalidInput
from apgcn.models.registry import MODELS, count_weights
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.rng import RandomStream
from apgcn.training.batching import bytes_per_run
from apgcn.training.config import TrainingConfig
from apgcn.training.loss import NodeSet, training_loss
from apgcn.training.trainer import BatchedTrainer, train_batch

NODES = 30
TRAINED = [name for name, config in MODELS.items() if config.has_weights]


def small_config(name):
    """A small model: the contract does not depend on its size."""
    names = {field.name for field in fields(MODELS[name])}
    return MODELS[name](**{"hidden_channels": 8} if "hidden_channels" in names else {})


@pytest.fixture(scope="module")
def graph() -> Graph:
    graph = random_graph(NODES, edges=40)
    assert (graph.adjacency.sum(1) == 0).any()  # it has an isolated node
    return graph


def make_runs(graph, count):
    random = np.random.default_rng(0)
    splits = []
    for seed in range(count):
        nodes = random.permutation(graph.num_nodes)
        splits.append(Split(train=nodes[:9], stopping=nodes[9:18], test=nodes[18:], seed=seed))
    return [Run(split, dataset=graph.name) for split in splits]


def predict(name, graph, device_graph, seeds=(1, 2, 3)):
    """Logits of a run batch, of a model with or without weights."""
    if MODELS[name].has_weights:
        with torch.no_grad():
            rng = RandomStream(seeds, device=device_graph.labels.device)
            return small_config(name).build(device_graph, rng)(device_graph).output
    train_nodes = torch.as_tensor(np.stack([run.split.train for run in make_runs(graph, len(seeds))]))
    return small_config(name).solve(device_graph, train_nodes.to(device_graph.labels.device)).output


@pytest.mark.parametrize("name", MODELS)
def test_shapes_over_the_run_axis(name, graph):
    device_graph = DeviceGraph.from_graph(graph)
    assert predict(name, graph, device_graph).shape == (3, NODES, 3)
    if MODELS[name].has_weights:
        config = small_config(name)
        model = config.build(device_graph, RandomStream([1, 2, 3]))
        assert all(len(parameter) == 3 for parameter in model.parameters())
        outcome = model(device_graph, RandomStream([4, 5, 6]))
        assert outcome.steps.shape == outcome.remainder.shape == (3, NODES)
        assert config.min_steps <= outcome.steps.min()
        assert outcome.steps.max() <= config.max_steps
        assert set(model.l2_parameters()) <= set(model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_three_runs_equals_three_batches_of_one(name, graph):
    """Up to rounding: the loss of every epoch, and the logits."""
    runs, training = make_runs(graph, 3), TrainingConfig(max_epochs=6, patience=6)
    together = train(graph, runs, small_config(name), training)
    for run, batched in zip(runs, together, strict=True):
        (alone,) = train(graph, [run], small_config(name), training)
        np.testing.assert_allclose(batched.history.training_loss, alone.history.training_loss, rtol=1e-4)
        np.testing.assert_allclose(batched.logits, alone.logits, rtol=1e-3, atol=1e-4)
        assert batched.steps.tolist() == alone.steps.tolist()


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_every_weight_has_a_finite_gradient_from_its_own_run_only(name, graph, as_sparse):
    if as_sparse:
        graph = replace(graph, features=sparse.csr_matrix(graph.features))
    device_graph = DeviceGraph.from_graph(graph)
    model = small_config(name).build(device_graph, RandomStream([1, 2]))
    for parameter in model.parameters():  # a weight initialised at zero may have no gradient
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    nodes = NodeSet.stack([run.split.train for run in make_runs(graph, 2)], device_graph.labels, name="training")
    value = training_loss(model, model(device_graph, RandomStream([3, 4])), nodes, l2=0.01)
    assert value.shape == (2,)
    value[1].backward()
    for weight_name, parameter in model.named_parameters():
        assert parameter.grad is not None, weight_name
        assert parameter.grad.isfinite().all(), weight_name
        assert (parameter.grad[0] == 0).all(), weight_name  # the loss of the second run does not depend on the first
        assert (parameter.grad[1] != 0).any(), weight_name


@pytest.mark.parametrize("name", MODELS)
def test_permuting_nodes_permutes_predictions(name, graph):
    order = np.random.default_rng(1).permutation(NODES)
    permuted = Graph(
        graph.adjacency[order][:, order], features=graph.features[order], labels=graph.labels[order], name=graph.name
    )
    if MODELS[name].has_weights:
        before, after = (predict(name, one, DeviceGraph.from_graph(one)) for one in (graph, permuted))
    else:
        train_nodes = torch.arange(9)[None]
        position = torch.as_tensor(np.argsort(order))
        before = small_config(name).solve(DeviceGraph.from_graph(graph), train_nodes).output
        after = small_config(name).solve(DeviceGraph.from_graph(permuted), position[train_nodes]).output
    torch.testing.assert_close(after, before[:, order], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_an_isolated_node_depends_on_its_own_features_only(name, graph):
    """Its prediction equals that in a graph of one node, and is finite."""
    isolated = int(np.flatnonzero(graph.adjacency.sum(1) == 0)[0])
    single = Graph(sparse.csr_matrix((1, 1)), features=graph.features[[isolated]], labels=np.array([2]), name="single")
    in_graph, single_node = (predict(name, one, DeviceGraph.from_graph(one)) for one in (graph, single))
    assert in_graph.isfinite().all()
    torch.testing.assert_close(in_graph[:, [isolated]], single_node, rtol=1e-4, atol=1e-5)


def test_an_isolated_node_has_a_prediction_of_a_model_without_weights(graph):
    assert predict("btfp", graph, DeviceGraph.from_graph(graph)).isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_sparse_and_dense_features_give_the_same_logits(name, graph):
    sparse_graph = replace(graph, features=sparse.csr_matrix(graph.features))
    dense, as_sparse = (predict(name, one, DeviceGraph.from_graph(one)) for one in (graph, sparse_graph))
    torch.testing.assert_close(as_sparse, dense, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", TRAINED)
def test_weights_can_be_saved_and_loaded(name, graph, tmp_path):
    from safetensors.torch import load_file

    from apgcn._utils.atomic import new_folder
    from apgcn.training.outputs import save

    results = train(graph, make_runs(graph, 2), small_config(name), TrainingConfig(max_epochs=3))
    with new_folder(tmp_path / "saved") as folder:
        save(folder, results, {})
    device_graph = DeviceGraph.from_graph(graph)
    model = small_config(name).build(device_graph, RandomStream([8, 9]))
    model.load_state_dict(load_file(tmp_path / "saved" / "weights.safetensors"))
    with torch.no_grad():
        again = model(device_graph).output.numpy()
    np.testing.assert_allclose(again, np.stack([result.logits for result in results]), rtol=1e-4, atol=1e-5)


def test_a_model_without_weights_is_saved_without_weights(graph, tmp_path):
    from safetensors.torch import load_file

    from apgcn._utils.atomic import new_folder
    from apgcn.training.outputs import save

    results = train(graph, make_runs(graph, 2), small_config("btfp"))
    with new_folder(tmp_path / "saved") as folder:
        save(folder, results, {})
    assert load_file(tmp_path / "saved" / "weights.safetensors") == {}
    assert np.load(tmp_path / "saved" / "nodes.npz")["logits"].shape == (2, NODES, 3)


@pytest.mark.parametrize("name", TRAINED)
def test_training_the_same_run_twice_gives_the_same_bits(name, graph):
    results, repeated = (
        train(graph, make_runs(graph, 2), small_config(name), TrainingConfig(max_epochs=4)) for _ in range(2)
    )
    for first, second in zip(results, repeated, strict=True):
        assert first.logits.tobytes() == second.logits.tobytes()


@pytest.mark.parametrize("name", TRAINED)
def test_training_lowers_the_loss_of_every_model(name, graph):
    """Without dropout, so that it must."""
    rates = {field.name: 0.0 for field in fields(MODELS[name]) if field.name.endswith("dropout")}
    config = replace(small_config(name), **rates)
    (result,) = train(graph, make_runs(graph, 1), config, TrainingConfig(max_epochs=40, patience=40, l2=0.0))
    assert result.history.training_loss[-1] < 0.9 * result.history.training_loss[0]


@pytest.mark.parametrize("name", MODELS)
def test_memory_estimate_is_an_upper_bound_within_a_factor_of_five(name):
    """Compared with the peak of PyTorch's memory profile on a CPU."""
    cora, config = clean(load("cora")), MODELS[name](**({"rounds": 1} if name == "btfp" else {}))
    device_graph = DeviceGraph.from_graph(cora)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        if config.has_weights:  # as one tensor program, which on a CPU is so for models with fused kernels only
            trainer = BatchedTrainer(device_graph, benchmark_runs(cora, 3), config, TrainingConfig())
            for _ in range(2):
                trainer.train_epoch()
            trainer.model(device_graph)
        else:
            train_batch(device_graph, benchmark_runs(cora, 3), config, TrainingConfig())
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    allocated = np.cumsum([event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())])
    estimate = 3 * bytes_per_run(cora, config, torch.device("cpu")) + 4 * config.floats_shared(cora)
    assert allocated.max() < estimate < 5 * allocated.max()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", MODELS)
def test_memory_estimate_is_an_upper_bound_on_a_gpu(name):
    """Apart from what the CUDA libraries allocate once."""
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
def test_a_gpu_gives_the_same_results_up_to_rounding(name, graph):
    on_cpu, on_gpu = (
        predict(name, graph, DeviceGraph.from_graph(graph, device=device)).cpu() for device in ("cpu", "cuda")
    )
    torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)
    training = TrainingConfig(max_epochs=6, patience=6)
    cpu_results, gpu_results = (
        train(graph, make_runs(graph, 3), small_config(name), training, device=d) for d in ("cpu", "cuda")
    )
    for on_cpu, on_gpu in zip(cpu_results, gpu_results, strict=True):
        np.testing.assert_allclose(on_gpu.history.training_loss, on_cpu.history.training_loss, rtol=1e-3)


def test_weights_are_counted_by_building_the_model():
    """GCN on Cora: 1433 x 64 + 64, then 64 x 7 + 7."""
    assert count_weights(MODELS["gcn"](), features=1433, classes=7) == 1433 * 64 + 64 + 64 * 7 + 7
    assert count_weights(MODELS["btfp"](), features=1433, classes=7) == 0


def test_a_model_without_weights_has_one_run_per_split():
    from apgcn.benchmark.config import RunConfig

    keys = RunConfig.from_preset("cora_ml", "btfp").first_runs(100)
    assert [key.split for key in keys] == list(TEST_SEEDS)
    assert {key.init for key in keys} == {0}


def test_records_of_an_unregistered_model_can_be_read(tmp_path):
    """A user's model whose defaults are unknown here: its records do not prevent reading the others."""
    store = Store(tmp_path)
    add_fake_records(store, RunConfig.from_preset("cora", "gcn"), [0.8])
    lines = (tmp_path / "runs.jsonl").read_text()
    foreign = lines.replace('"gcn"', '"mine"').replace("cora/gcn/", "cora/mine/").replace("-gcn-", "-mine-")
    foreign = re.sub(', "checksum": "[^"]*"', "", foreign)
    (tmp_path / "runs.jsonl").write_text(lines + foreign)
    assert sorted(record.model for record in Store(tmp_path).records.values()) == ["gcn", "mine"]


def test_status_counts_finished_runs_of_an_unregistered_model_as_done(tmp_path):
    """Their key leaves out the model's defaults, which are unknown here."""
    store = Store(tmp_path)
    (record,) = add_fake_records(store, RunConfig.from_preset("cora", "gcn"), [0.8])
    values = record.to_json()
    foreign = {**values, "model": "mine", "key": values["key"].replace("/gcn/", "/mine/")}
    plan = {"key": "cora-mine", "runs": [[record.split, 0], [record.split, 1]], "device": "cpu"}
    names = ("dataset", "train_per_class", "seed_set", "hyperparameters")
    plan["run_config"] = {"model": "mine"} | {name: values[name] for name in names}
    (tmp_path / "runs.jsonl").write_text(json.dumps(foreign) + "\n")
    (tmp_path / "plan.log").write_text(json.dumps(plan) + "\n")
    progress = store_progress(Store(tmp_path))
    assert (progress.done, progress.planned) == (1, 2)


@pytest.mark.parametrize("name", TRAINED)
def test_numpy_scalars_are_accepted_as_hyperparameters(name, graph):
    """`for hidden in np.array([16, 32])` is everyday use."""
    config = small_config(name)
    numpy_types = {bool: np.bool_, int: np.int64, float: np.float32, str: np.str_}
    numpy_config = replace(config, **{key: numpy_types[type(value)](value) for key, value in vars(config).items()})
    short = TrainingConfig(max_epochs=2)
    as_numpy = TrainingConfig(max_epochs=np.int32(2), l2=np.float64(short.l2))
    (expected,), (result,) = (
        train(graph, make_runs(graph, 1), config, short),
        train(graph, make_runs(graph, 1), numpy_config, as_numpy),
    )
    np.testing.assert_allclose(result.logits, expected.logits, rtol=1e-4, atol=1e-6)


def test_invalid_arguments_of_train_are_rejected(graph):
    for arguments, message in (
        (("cora", make_runs(graph, 1), small_config("gcn")), "graph must be a Graph"),
        ((graph, make_runs(graph, 1), small_config("gcn"), {"max_epochs": 2}), "training must be a TrainingConfig"),
    ):
        with pytest.raises(InvalidInput, match=message):
            train(*arguments)


@pytest.mark.parametrize("name", MODELS)
def test_memory_estimate_grows_with_the_number_of_classes(name):
    """A graph with many classes and little else."""
    few, many = (
        Graph(np.eye(50), features=np.ones((50, 3)), labels=np.arange(50) % 3, class_names=[*map(str, range(classes))])
        for classes in (3, 3000)
    )
    config = MODELS[name]()
    assert config.floats_per_run(many) > config.floats_per_run(few) + 10 * 50 * 2997
