"""Training on a GPU gives the numbers of the CPU, up to rounding, with CUDA graphs and without."""

import gc
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from apgcn import APGCNConfig, TrainingConfig, benchmark_runs, train
from apgcn.inference.bundle import ModelBundle, load_model, save_model
from apgcn.inference.fit import fit
from apgcn.inference.splits import stratified_split
from apgcn.models.registry import MODELS
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.dispatch import reference_kernels
from apgcn.ops.rng import RandomStream
from apgcn.training.batching import bytes_per_run
from apgcn.training.cuda_graphs import side_stream
from apgcn.training.loss import training_loss
from apgcn.training.trainer import BatchedTrainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

ALL_DROPOUT = APGCNConfig(z0_dropout=0.5, update_dropout=0.5)


def test_random_streams_have_the_same_bits_on_cpu_and_gpu():
    cpu, gpu = RandomStream([1, 2]), RandomStream([1, 2], device="cuda")
    for draw in (
        lambda rng: rng.random_bits(99),
        lambda rng: rng.uniform(99),
        lambda rng: rng.dropout_mask(99, rate=0.5),
    ):
        assert torch.equal(draw(cpu), draw(gpu).cpu())
    assert torch.equal(cpu.dropout_mask(99, rate=0.3), gpu.dropout_mask(99, rate=0.3).cpu())


def gradients_on(device, graph):
    trainer = BatchedTrainer(
        DeviceGraph.from_graph(graph, device=device), benchmark_runs(graph, 4), ALL_DROPOUT, TrainingConfig()
    )
    trainer.rng.seek(5)
    training_loss(
        trainer.model, trainer.model(trainer.graph, trainer.rng), trainer.train_nodes, l2=0.008
    ).sum().backward()
    return {name: weight.grad.cpu() for name, weight in trainer.model.named_parameters()}


def assert_gradients_agree(gradients, expected):
    for name, gradient in gradients.items():
        assert (expected[name] - gradient).norm() <= 1e-5 * gradient.norm(), name


def test_gradients_on_cpu_and_gpu_agree(cora):
    """The weights themselves differ more: Adam divides by the gradient's size, tiny ones included."""
    assert_gradients_agree(gradients_on("cpu", cora), gradients_on("cuda", cora))


def test_gradients_of_fused_kernels_and_reference_agree(cora):
    gradients = []
    for is_reference in (False, True):
        with reference_kernels() if is_reference else nullcontext():
            gradients.append(gradients_on("cuda", cora))
    assert_gradients_agree(*gradients)


def test_epochs_as_cuda_graphs_have_the_same_bits(cora):
    """Eager, captured, and captured again: the weights, and the evaluation after each epoch."""
    bits = []
    for captures in (False, True, True):
        with side_stream(torch.device("cuda")):
            trainer = BatchedTrainer(
                DeviceGraph.from_graph(cora, device="cuda"), benchmark_runs(cora, 3), ALL_DROPOUT, TrainingConfig()
            )
            for _ in range(26):
                trainer.train_epoch()
                if not captures:
                    trainer._reset_cuda_graphs()
            captured = [
                graph._captured is not None for graph in (*trainer._step_graphs.values(), trainer._evaluation_graph)
            ]
            # steps without and with the halting unit, and an evaluation
            assert captured == ([True] * 3 if captures else [False])
            values = [weight.flatten().double() for weight in trainer.model.parameters()]
            values += [evaluation.flatten() for _, evaluation in trainer.history._epochs]
            bits.append(torch.cat(values).tolist())
    assert bits[0] == bits[1] == bits[2]


@pytest.mark.parametrize("name", [name for name, config in MODELS.items() if config.has_weights])
def test_an_epoch_does_not_synchronize_with_the_host(cora, name):
    with side_stream(torch.device("cuda")), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        trainer = BatchedTrainer(
            DeviceGraph.from_graph(cora, device="cuda"), benchmark_runs(cora, 2), MODELS[name](), TrainingConfig()
        )
        try:
            for epoch in range(1, 22):
                torch.cuda.set_sync_debug_mode("error" if epoch > 15 else "default")
                trainer.begin_epoch()
                trainer.step()
                trainer.evaluate_and_snapshot()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_the_first_epochs_on_cpu_and_gpu_agree(cora):
    histories = []
    for device in ("cpu", "cuda"):
        results = train(cora, benchmark_runs(cora, 4), ALL_DROPOUT, TrainingConfig(max_epochs=6), device=device)
        histories.append(np.array([vars(result.history)["stopping_loss"] for result in results]))
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-4)


def test_finished_runs_are_dropped_from_a_batch_on_the_gpu(cora):
    """And the other runs continue as without CUDA graphs, bit for bit."""
    short, results = replace(TrainingConfig(), patience=5, max_epochs=60), []
    for captures in (True, False):
        with side_stream(torch.device("cuda")):
            trainer = BatchedTrainer(
                DeviceGraph.from_graph(cora, device="cuda"), benchmark_runs(cora, 6), ALL_DROPOUT, short
            )
            trainer.drop_seconds, sizes = 0.0, set()
            while trainer.has_active_runs:
                trainer.train_epoch()
                sizes.add(len(trainer.active_runs))
                if not captures:
                    trainer._reset_cuda_graphs()
            results.append([(run.best_epoch, run.epochs, run.logits.tolist()) for run in trainer.results()])
        assert len(sizes) > 2, "the test needs runs that finish at different epochs"
    assert results[0] == results[1]


def test_steps_of_a_rarely_updated_halting_unit_are_captured_later(cora):
    model = replace(ALL_DROPOUT, halting_interval=12)
    with side_stream(torch.device("cuda")):
        trainer = BatchedTrainer(
            DeviceGraph.from_graph(cora, device="cuda"), benchmark_runs(cora, 2), model, TrainingConfig()
        )
        for _ in range(25):
            trainer.train_epoch()
        assert all(graph._captured is not None for graph in trainer._step_graphs.values())
        assert len(trainer._step_graphs) == 2


def test_the_memory_estimate_is_within_a_factor_of_four(cora):
    """It is not below the peak of what was allocated, all CUDA graphs included."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    reserved = torch.cuda.memory_reserved()
    train(cora, benchmark_runs(cora, 40), ALL_DROPOUT, TrainingConfig(max_epochs=40), device="cuda")
    peak = torch.cuda.max_memory_allocated() - before
    estimate = 40 * bytes_per_run(cora, ALL_DROPOUT, torch.device("cuda"))
    assert peak < estimate < 4 * peak
    assert torch.cuda.max_memory_reserved() - reserved < estimate


def test_a_saved_model_predicts_the_same_on_cpu_and_gpu(cora, tmp_path):
    trained = fit(cora, stratified_split(cora.labels), APGCNConfig(), TrainingConfig(max_epochs=30), device="cuda")
    save_model(tmp_path / "m", ModelBundle(trained, cora))
    loaded = load_model(tmp_path / "m").model
    cpu, gpu = (loaded.predict(cora, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(cpu.probabilities, gpu.probabilities, atol=1e-4)
    assert (cpu.steps == gpu.steps).mean() > 0.999
