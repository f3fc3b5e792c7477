"""The same numbers on a GPU, up to rounding."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from apgcn import APGCNSettings, TrainingSettings, benchmark_runs, train
from apgcn.noise import Noise
from apgcn.tensors import GraphTensors
from apgcn.training.loop import Pack
from apgcn.training.objective import objective

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

ALL_DROPOUT = APGCNSettings(seed_dropout=0.5, update_dropout=0.5)


def test_noise_has_the_same_bits():
    here, there = Noise([1, 2]), Noise([1, 2], device="cuda")
    for draw in (lambda n: n.words(99), lambda n: n.uniform(99), lambda n: n.keep(99, rate=0.5)):
        assert torch.equal(draw(here), draw(there).cpu())
    assert torch.equal(here.keep(99, rate=0.3), there.keep(99, rate=0.3).cpu())


def test_a_step_has_the_same_gradients(cora):
    """The weights themselves differ more: Adam divides by the gradient's size, tiny ones included."""
    gradients = []
    for device in ("cpu", "cuda"):
        pack = Pack(GraphTensors.of(cora, device=device), benchmark_runs(cora, 4), ALL_DROPOUT, TrainingSettings())
        pack.noise.seek(5)
        objective(pack.model, pack.model(pack.graph, pack.noise), pack.train, l2=0.008).sum().backward()
        gradients.append({name: weight.grad.cpu() for name, weight in pack.model.named_parameters()})
    for name, gradient in gradients[0].items():
        assert (gradients[1][name] - gradient).norm() <= 1e-5 * gradient.norm(), name


def test_the_first_epochs_agree_with_the_cpu(cora):
    histories = []
    for device in ("cpu", "cuda"):
        results = train(cora, benchmark_runs(cora, 4), ALL_DROPOUT, TrainingSettings(max_epochs=6), device=device)
        histories.append(np.array([vars(result.history)["stopping_loss"] for result in results]))
    np.testing.assert_allclose(histories[1], histories[0], rtol=1e-4)


def test_runs_leave_a_pack_on_the_gpu(cora):
    short = replace(TrainingSettings(), patience=5, max_epochs=40)
    results = train(cora, benchmark_runs(cora, 6), ALL_DROPOUT, short, device="cuda")
    assert len(results) == 6
    assert all(result.best_epoch >= 1 for result in results)


def test_the_memory_estimate_is_of_the_right_size(cora):
    """Against what was really allocated: not below, and within a factor of four."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    train(cora, benchmark_runs(cora, 40), ALL_DROPOUT, TrainingSettings(max_epochs=3), device="cuda")
    peak = torch.cuda.max_memory_allocated()
    estimate = 40 * 4 * ALL_DROPOUT.floats_per_run(cora)
    assert peak < estimate < 4 * peak
