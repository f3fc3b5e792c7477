import numpy as np
import pytest
import torch

from apgcn import TrainingSettings
from apgcn.errors import InvalidInput
from apgcn.training.stopping import EarlyStopping


def one_run_by_hand(accuracies, losses, patience):
    """Early stopping of a single run in plain Python: the best epoch and the last."""
    best, lowest, waited, best_epoch = (-1.0, np.inf), np.inf, 0, 0
    for epoch, (accuracy, loss) in enumerate(zip(accuracies, losses, strict=True), start=1):
        waited = 0 if accuracy > best[0] or loss < lowest else waited + 1
        lowest = min(lowest, loss)
        if (accuracy, -loss) > (best[0], -best[1]):
            best, best_epoch = (accuracy, loss), epoch
        if waited == patience:
            return best_epoch, epoch
    return best_epoch, len(accuracies)


def test_each_run_stops_as_if_it_were_alone():
    random = np.random.default_rng(0)
    accuracies = random.integers(0, 6, size=(200, 30)) / 5 + np.minimum(np.arange(200), 40)[:, None] / 20
    losses = random.random((200, 30)).astype(np.float32)
    expected = [one_run_by_hand(accuracies[:, run], losses[:, run], 12) for run in range(30)]

    stopping, members = EarlyStopping(30, patience=12), torch.arange(30)
    found = {}
    for epoch in range(1, 201):
        at = members.numpy()
        stopping.update(epoch, torch.from_numpy(accuracies[epoch - 1, at]), torch.from_numpy(losses[epoch - 1, at]))
        finished = stopping.finished(epoch) if epoch < 200 else torch.ones(len(members), dtype=torch.bool)
        for place in finished.nonzero().flatten().tolist():
            found[members[place].item()] = (stopping.best_epoch[place].item(), epoch)
        stopping.select((~finished).nonzero().flatten())
        members = members[~finished]
        if not len(members):
            break
    assert [found[run] for run in range(30)] == expected
    assert len({end for _, end in expected}) > 5


def test_ties_in_accuracy_are_broken_by_the_loss_at_the_best_epoch():
    stopping = EarlyStopping(1, patience=10)
    epochs = [(0.5, 1.0), (0.4, 0.2), (0.5, 0.9), (0.5, 0.95)]  # the 0.2 belongs to a lower accuracy
    for epoch, (accuracy, loss) in enumerate(epochs, start=1):
        stopping.update(epoch, torch.tensor([accuracy], dtype=torch.float64), torch.tensor([loss]))
    assert stopping.best_epoch.tolist() == [3]
    assert stopping.last_improvement.tolist() == [2]  # neither 0.5 nor 0.9 was better than ever before


def test_a_loss_that_is_not_a_number_runs_out_of_patience():
    stopping = EarlyStopping(1, patience=2)
    for epoch in (1, 2, 3):
        stopping.update(epoch, torch.tensor([0.1], dtype=torch.float64), torch.tensor([torch.nan]))
    assert stopping.finished(3).tolist() == [True]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"patience": 0}, "patience must be >= 1"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
        ({"l2": -1.0}, "l2 must be >= 0"),
        ({"watch": "test"}, "watch must be one of stopping, training, got 'test'"),
    ],
)
def test_impossible_settings_are_told_in_words(settings, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        TrainingSettings(**settings)
