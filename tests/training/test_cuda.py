"""The same numbers on a GPU, up to rounding."""

import gc
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from apgcn import APGCNConfig, TrainingConfig, benchmark_runs, train
from apgcn.inference.bundle import SavedModel, load_model, save_model
from apgcn.inference.fit import fit
from apgcn.inference.splits import stratified_split
from apgcn.models.registry import MODELS
from apgcn.ops.device_graph import DeviceGraph
from apgcn.ops.dispatch import reference_kernels
from apgcn.ops.rng import RandomStream
from apgcn.training.batching import bytes_per_run
from apgcn.training.cuda_graphs import side_stream
from apgcn.training.loss import objective
from apgcn.training.trainer import BatchedTrainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

ALL_DROPOUT = APGCNConfig(z0_dropout=0.5, update_dropout=0.5)


def test_noise_has_the_same_bits():
    here, there = RandomStream([1, 2]), RandomStream([1, 2], device="cuda")
    for draw in (lambda n: n.words(99), lambda n: n.uniform(99), lambda n: n.keep(99, rate=0.5)):
        assert torch.equal(draw(here), draw(there).cpu())
    assert torch.equal(here.keep(99, rate=0.3), there.keep(99, rate=0.3).cpu())


def gradients_on(device, graph):
    pack = BatchedTrainer(DeviceGraph.of(graph, device=device), benchmark_runs(graph, 4), ALL_DROPOUT, TrainingConfig())
    pack.rng.seek(5)
    objective(pack.model, pack.model(pack.graph, pack.rng), pack.train, l2=0.008).sum().backward()
    return {name: weight.grad.cpu() for name, weight in pack.model.named_parameters()}


def agree(gradients, others):
    for name, gradient in gradients.items():
        assert (others[name] - gradient).norm() <= 1e-5 * gradient.norm(), name


def test_a_step_has_the_same_gradients(cora):
    """The weights themselves differ more: Adam divides by the gradient's size, tiny ones included."""
    agree(gradients_on("cpu", cora), gradients_on("cuda", cora))


def test_written_out_loops_have_the_same_gradients(cora):
    gradients = []
    for plain in (False, True):
        with reference_kernels() if plain else nullcontext():
            gradients.append(gradients_on("cuda", cora))
    agree(*gradients)


def test_recorded_epochs_are_epochs(cora):
    """Bit for bit: as they stand, recorded, and recorded again; weights and what was found after each epoch."""
    weights = []
    for records in (False, True, True):
        with side_stream(torch.device("cuda")):
            pack = BatchedTrainer(
                DeviceGraph.of(cora, device="cuda"), benchmark_runs(cora, 3), ALL_DROPOUT, TrainingConfig()
            )
            for _ in range(26):
                pack.epoch()
                if not records:
                    pack._forget_records()
            recorded = [work._recorded is not None for work in (*pack._steps.values(), pack._assessment)]
            assert recorded == ([True] * 3 if records else [False])  # steps without and with the halting unit, a look
            found = [weight.flatten().double() for weight in pack.model.parameters()]
            found += [values.flatten() for _, values in pack.history._epochs]
            weights.append(torch.cat(found).tolist())
    assert weights[0] == weights[1] == weights[2]


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if kind.has_weights])
def test_the_host_does_not_wait_inside_an_epoch(cora, name):
    with side_stream(torch.device("cuda")), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Synchronization debug mode")
        pack = BatchedTrainer(
            DeviceGraph.of(cora, device="cuda"), benchmark_runs(cora, 2), MODELS[name](), TrainingConfig()
        )
        try:
            for epoch in range(1, 22):
                torch.cuda.set_sync_debug_mode("error" if epoch > 15 else "default")
                pack.begin()
                pack.step()
                pack.assess()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_the_first_epochs_agree_with_the_cpu(cora):
    histories = []
    for device in ("cpu", "cuda"):
        results = train(cora, benchmark_runs(cora, 4), ALL_DROPOUT, TrainingConfig(max_epochs=6), device=device)
        histories.append(np.array([vars(result.history)["stopping_loss"] for result in results]))
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-4)


def test_runs_leave_a_pack_on_the_gpu(cora):
    """And the others go on as if nothing had been recorded, bit for bit."""
    short, found = replace(TrainingConfig(), patience=5, max_epochs=60), []
    for records in (True, False):
        with side_stream(torch.device("cuda")):
            pack = BatchedTrainer(DeviceGraph.of(cora, device="cuda"), benchmark_runs(cora, 6), ALL_DROPOUT, short)
            sizes = set()
            while pack.going:
                pack.epoch()
                sizes.add(len(pack.members))
                if not records:
                    pack._forget_records()
            found.append([(one.best_epoch, one.epochs, one.logits.tolist()) for one in pack.results()])
        assert len(sizes) > 2, "a test in which all runs leave together shows little"
    assert found[0] == found[1]


def test_a_halting_unit_that_learns_seldom_is_recorded_later(cora):
    model = replace(ALL_DROPOUT, halting_interval=12)
    with side_stream(torch.device("cuda")):
        pack = BatchedTrainer(DeviceGraph.of(cora, device="cuda"), benchmark_runs(cora, 2), model, TrainingConfig())
        for _ in range(25):
            pack.epoch()
        assert all(work._recorded is not None for work in pack._steps.values())
        assert len(pack._steps) == 2


def test_the_memory_estimate_is_of_the_right_size(cora):
    """Against what was really allocated: not below, and within a factor of four; all recordings included."""
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


def test_a_model_saved_here_answers_there(cora, tmp_path):
    """Trained on a GPU, saved, loaded, and asked on both."""
    fitted = fit(cora, stratified_split(cora.labels), APGCNConfig(), TrainingConfig(max_epochs=30), device="cuda")
    save_model(tmp_path / "m", SavedModel(fitted, cora))
    again = load_model(tmp_path / "m").fitted
    here, there = (again.predict(cora, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.probabilities, there.probabilities, atol=1e-4)
    assert (here.steps == there.steps).mean() > 0.999
