"""The same numbers on a GPU, up to rounding."""

from dataclasses import replace

import pytest
import torch

from apgcn import APGCNSettings, TrainingSettings, benchmark_runs
from apgcn.noise import Noise
from apgcn.tensors import GraphTensors
from apgcn.training.loop import Pack, train_pack

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

ALL_DROPOUT = APGCNSettings(seed_dropout=0.5, update_dropout=0.5)


def test_noise_has_the_same_bits():
    here, there = Noise([1, 2]), Noise([1, 2], device="cuda")
    for draw in (lambda n: n.words(99), lambda n: n.uniform(99), lambda n: n.keep(99, rate=0.5)):
        assert torch.equal(draw(here), draw(there).cpu())
    assert torch.equal(here.keep(99, rate=0.3), there.keep(99, rate=0.3).cpu())


def test_the_first_epochs_agree_with_the_cpu(cora):
    packs = []
    for device in ("cpu", "cuda"):
        graph = GraphTensors.of(cora, device=device)
        pack = Pack(graph, benchmark_runs(cora, 4), ALL_DROPOUT, TrainingSettings())
        for _ in range(6):
            pack.epoch()
        packs.append({name: weight.detach().cpu() for name, weight in pack.model.named_parameters()})
    for name, weight in packs[0].items():
        torch.testing.assert_close(packs[1][name], weight, rtol=1e-3, atol=5e-5)


def test_runs_leave_a_pack_on_the_gpu(cora):
    short = replace(TrainingSettings(), patience=5, max_epochs=40)
    results = train_pack(cora, benchmark_runs(cora, 6), ALL_DROPOUT, short, device="cuda")
    assert len(results) == 6
    assert all(result.best_epoch >= 1 for result in results)
