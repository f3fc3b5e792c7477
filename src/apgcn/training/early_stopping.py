"""Early stopping, and the best epoch of each run."""

from __future__ import annotations

import torch
from torch import Tensor

from apgcn.training.config import EarlyStopMode


class EarlyStopping:
    """Early stopping of every run of a batch, independently of the others.

    The best epoch has the highest stopping accuracy; ties are broken by the lower monitored loss. Patience is reset
    when either the accuracy or the loss is better than ever before; a run is finished when it has been without such an
    improvement for `patience` epochs. With `early_stop_mode="tie"` a value equal to the best also resets patience. With
    `early_stop_mode="loss"` accuracy is ignored: the best epoch has the lowest loss, and only that resets patience.

    Attributes
    ----------
    last_improvement : Tensor of shape (runs,)
        The epoch of the last improvement, counted from 1; 0 if there was none.
    """

    def __init__(
        self, runs: int, *, patience: int, early_stop_mode: EarlyStopMode = "either", device: torch.device | str = "cpu"
    ):
        self.patience = patience
        self.early_stop_mode = early_stop_mode
        self.last_improvement = torch.zeros(runs, dtype=torch.int64, device=device)
        self.best_accuracy = torch.full((runs,), -1.0, dtype=torch.float64, device=device)
        self.loss_at_best = torch.full((runs,), torch.inf, device=device)
        self.lowest_loss = self.loss_at_best.clone()

    def update(self, epoch: int | Tensor, accuracy: Tensor, loss: Tensor) -> Tensor:
        """Update the state with the evaluation of an epoch, in place; return for which runs it is the best so far.

        For a run that had finished before it never is.
        """
        active = epoch - 1 - self.last_improvement < self.patience
        if self.early_stop_mode == "loss":
            accuracy = torch.zeros_like(accuracy)  # all equal, so that the loss decides
        accuracy = accuracy.masked_fill(~loss.isfinite(), -1.0)  # such an epoch is never the best
        higher, equal = accuracy > self.best_accuracy, (accuracy == self.best_accuracy) & loss.isfinite()
        best = higher | (equal & (loss < self.loss_at_best))
        improved = higher | (loss < self.lowest_loss)
        if self.early_stop_mode == "tie":
            improved |= equal | (loss == self.lowest_loss)
        best, improved = best & active, improved & active
        self.last_improvement.copy_(torch.where(improved, epoch, self.last_improvement))
        self.best_accuracy.copy_(torch.where(best, accuracy, self.best_accuracy))
        self.loss_at_best.copy_(torch.where(best, loss, self.loss_at_best))
        self.lowest_loss.copy_(torch.minimum(self.lowest_loss, loss.nan_to_num(torch.inf)))
        return best

    def finished(self, epoch: int) -> Tensor:
        """Which runs have exhausted their patience."""
        return epoch - self.last_improvement >= self.patience

    def select(self, runs: Tensor) -> None:
        """Keep some of the runs, by their positions in the batch."""
        for name in ("last_improvement", "best_accuracy", "loss_at_best", "lowest_loss"):
            setattr(self, name, getattr(self, name)[runs])
