"""Early stopping of a batch against a loop over single runs, and its limits."""

from typing import get_args

import numpy as np
import pytest
import torch

from apgcn import TrainingConfig
from apgcn.errors import InvalidInput
from apgcn.training.config import EarlyStopMode
from apgcn.training.early_stopping import EarlyStopping


def stop_single_run(accuracies, losses, patience, early_stop_mode):
    """Early stopping of a single run in plain Python; returns the best epoch and the last."""
    best, lowest, waited, best_epoch = (-1.0, np.inf), np.inf, 0, 0
    for epoch, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True), start=1):
        if early_stop_mode == "loss":
            improved, at_best = loss < lowest, loss < lowest
        else:
            tie = early_stop_mode == "tie" and (accuracy == best[0] or loss == lowest)
            improved = accuracy > best[0] or loss < lowest or tie
            at_best = (accuracy, -loss) > (best[0], -best[1])
        waited = 0 if improved else waited + 1
        lowest = min(lowest, loss)
        if at_best:
            best, best_epoch = (accuracy, loss), epoch
        if waited == patience:
            return best_epoch, epoch
    return best_epoch, len(accuracies)


@pytest.mark.parametrize("early_stop_mode", get_args(EarlyStopMode))
def test_each_run_stops_as_if_it_were_alone(early_stop_mode):
    random = np.random.default_rng(0)
    accuracies = random.integers(0, 6, size=(200, 30)) / 5 + np.minimum(np.arange(200), 40)[:, None] / 20
    losses = (random.integers(0, 50, size=(200, 30)) / 50).astype(np.float32)  # some are equal
    expected = [stop_single_run(accuracies[:, run], losses[:, run], 12, early_stop_mode) for run in range(30)]

    stopping, active_runs = EarlyStopping(30, patience=12, early_stop_mode=early_stop_mode), torch.arange(30)
    actual, best_epoch = {}, torch.zeros(30, dtype=torch.int64)
    for epoch in range(1, 201):
        accuracy, loss = (torch.from_numpy(values[epoch - 1, active_runs.numpy()]) for values in (accuracies, losses))
        best_epoch[active_runs[stopping.update(epoch, accuracy, loss)]] = epoch
        finished = stopping.finished(epoch) if epoch < 200 else torch.ones(len(active_runs), dtype=torch.bool)
        for position in finished.nonzero().flatten().tolist():
            run = active_runs[position].item()
            actual[run] = (best_epoch[run].item(), epoch)
        stopping.select((~finished).nonzero().flatten())
        active_runs = active_runs[~finished]
        if not len(active_runs):
            break
    assert [actual[run] for run in range(30)] == expected
    assert len({end for _, end in expected}) > 5


def test_ties_in_accuracy_are_broken_by_the_loss_at_the_best_epoch():
    stopping = EarlyStopping(1, patience=10)
    evaluations = [(0.5, 1.0), (0.4, 0.2), (0.5, 0.9), (0.5, 0.95)]  # the 0.2 belongs to a lower accuracy
    best = [
        stopping.update(epoch, torch.tensor([accuracy], dtype=torch.float64), torch.tensor([loss])).item()
        for epoch, (accuracy, loss) in enumerate(evaluations, start=1)
    ]
    assert best == [True, False, True, False]
    assert stopping.last_improvement.tolist() == [2]  # neither 0.5 nor 0.9 was better than ever before


@pytest.mark.parametrize("loss", [torch.nan, torch.inf])
def test_a_run_whose_loss_is_not_finite_is_never_at_its_best_and_runs_out_of_patience(loss):
    stopping = EarlyStopping(1, patience=2)
    for epoch in (1, 2):
        best = stopping.update(epoch, torch.tensor([0.9], dtype=torch.float64), torch.tensor([loss]))
        assert not best.item()
    assert stopping.finished(2).tolist() == [True]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"patience": 0}, "patience must be >= 1"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
        ({"l2": -1.0}, "l2 must be >= 0"),
        ({"monitor": "test"}, "monitor must be one of stopping, training, regularised, got 'test'"),
    ],
)
def test_invalid_hyperparameters_raise_a_message_that_names_them(config, message):
    with pytest.raises(InvalidInput, match=message):
        TrainingConfig(**config)
