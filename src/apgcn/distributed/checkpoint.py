"""Checkpoints: a file with the state that all ranks of a training share, from which it can be resumed.

The state is: weights, moments of the optimiser, early stopping, the best weights and the history. Random streams follow
from the epoch. A resumed training is bit-identical to an uninterrupted one, if it has the same number of ranks with the
same rows. Rank 0 writes the file, in the safetensors format; nothing in it is unpickled.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from apgcn._utils.atomic import atomic_write
from apgcn._utils.formatting import format_names
from apgcn.distributed.communication import Communicator
from apgcn.errors import BrokenFile, InvalidInput
from apgcn.training.trainer import BatchedTrainer

FORMAT = 2  # checkpoints of apgcn 0.1 had other names of tensors and no format number
MOMENTS = ("exp_avg", "exp_avg_sq", "step")
EARLY_STOPPING = ("last_improvement", "best_accuracy", "loss_at_best", "lowest_loss")
MAY_DIFFER = ("partition", "number of ranks", "presence of numba")  # dropout masks then differ, but are as good
WRITE_INTERVAL = 5.0  # seconds


def write_checkpoint(path: Path, trainer: BatchedTrainer, task: dict[str, Any]) -> None:
    """Write the state of a trainer atomically; `task` describes the training, as JSON values."""
    from safetensors.torch import save

    path.parent.mkdir(parents=True, exist_ok=True)
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in _state(trainer).items()}
    metadata = {"format": str(FORMAT), "task": json.dumps(task, sort_keys=True), "epochs": str(trainer.epochs)}
    metadata["digest"] = _digest(content, metadata)
    atomic_write(path, lambda file: file.write(save(content, metadata)))


def read_checkpoint(path: Path, task: dict[str, Any]) -> tuple[dict[str, Tensor], int]:
    """The state of a trainer, and its number of epochs.

    Raises
    ------
    InvalidInput
        If the checkpoint belongs to another training.
    BrokenFile
        If the file is no checkpoint, is damaged, or has the format of another version.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.pop("digest", None) != _digest(state, metadata):
            raise ValueError("it is damaged")
        if metadata.get("format") != str(FORMAT):
            raise BrokenFile(
                f"{path} must be a checkpoint of format {FORMAT}, but another version of apgcn wrote it (apgcn 0.1 has "
                "format 1); finish the training with that version, or remove the file to start again."
            )
        saved_task, epochs = dict(json.loads(metadata["task"])), int(metadata["epochs"])
    except BrokenFile:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise BrokenFile(
            f"{path} must be a checkpoint, but cannot be read ({error}); remove it to start again."
        ) from error
    required = {name: value for name, value in task.items() if name not in MAY_DIFFER}
    if any(saved_task.get(name) != value for name, value in required.items()):
        difference = describe_difference(required, saved_task)
        raise InvalidInput(f"{path} must be of the same training, but {difference}; remove it, or use another --out.")
    return state, epochs


def check_complete(path: Path, state: dict[str, Tensor], trainer: BatchedTrainer) -> None:
    """Raise BrokenFile unless the state has all tensors that `restore` needs for this trainer."""
    missing = sorted(set(_state(trainer)) - set(state))
    if missing:
        raise BrokenFile(
            f"{path} must be a checkpoint, but lacks {format_names(missing)}; remove it to start the training again."
        )


def _digest(content: dict[str, Tensor], metadata: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(content.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def describe_difference(task: dict[str, Any], other_task: dict[str, Any]) -> str:
    """The first difference between two trainings, as words of a sentence."""
    name = next(name for name in task if other_task.get(name) != task[name])
    values = [str(value) for value in (task[name], other_task.get(name))]
    detail = f" ({values[0]} here, {values[1]} there)" if max(map(len, values)) < 40 else ""
    return f"the {name} differs{detail}"


class CheckpointWriter:
    """Writes a checkpoint every few seconds; with path None, as on every rank but the first, it writes none."""

    def __init__(self, path: Path | None):
        self._path, self._last_time = path, -np.inf

    def write_if_due(self, trainer: BatchedTrainer, task: dict[str, Any]) -> None:
        """Write a checkpoint if the last one is old and some runs are not finished."""
        if self._path is None or not trainer.has_active_runs or time.monotonic() - self._last_time <= WRITE_INTERVAL:
            return
        try:
            write_checkpoint(self._path, trainer, task)
        except OSError as error:
            raise InvalidInput(
                f"{self._path} must be writable, for a checkpoint, but is not ({error.strerror}); free some space, or "
                "use another --out."
            ) from error
        self._last_time = time.monotonic()


def resume(comm: Communicator, trainer: BatchedTrainer, path: Path | None, task: dict[str, Any]) -> None:
    """Restore the trainers of all ranks from the checkpoint of rank 0, if it exists."""

    def read() -> tuple[dict[str, Tensor], int] | None:
        if comm.rank > 0 or path is None or not path.is_file():
            return None
        state, epochs = read_checkpoint(path, task)
        check_complete(path, state, trainer)
        return state, epochs

    state, epochs = comm.run_collectively(read) or ({}, 0)
    shapes = {name: [list(tensor.shape), str(tensor.dtype).removeprefix("torch.")] for name, tensor in state.items()}
    shapes, epochs = comm.all_gather([shapes, epochs])[0]
    if not shapes:
        return
    shared_state = {
        name: comm.broadcast(state.get(name), shape=tuple(shape), dtype=getattr(torch, dtype))
        for name, (shape, dtype) in shapes.items()
    }
    restore(trainer, shared_state, epochs)


def restore(trainer: BatchedTrainer, state: dict[str, Tensor], epochs: int) -> None:
    """Set a new trainer to a state of another one."""
    trainer.epochs = epochs
    state = {name: tensor.to(trainer.device) for name, tensor in state.items()}
    active_runs = state["active_runs"]
    trainer.active_runs = active_runs
    trainer.rng.select(active_runs)
    trainer.early_stopping.select(active_runs)
    trainer.set_nodes(trainer.train_nodes.select(active_runs), trainer.stopping_nodes.select(active_runs))
    trainer.best_epochs = state["best_epochs"]
    trainer.finished_epochs = state["finished_epochs"].cpu().numpy()
    for name in EARLY_STOPPING:
        setattr(trainer.early_stopping, name, state[f"early_stopping.{name}"])
    for name, weight in trainer.model.named_parameters():
        weight.data = state[f"weights.{name}"]
        trainer.best_weights[name] = state[f"best_weights.{name}"]
        trainer.finished_weights[name] = state[f"finished_weights.{name}"]
        moments = {moment: state[f"{moment}.{name}"] for moment in MOMENTS if f"{moment}.{name}" in state}
        if moments:
            trainer.optimizer.state[weight] = moments
    trainer.history.restore(state["history"])


def _state(trainer: BatchedTrainer) -> dict[str, Tensor]:
    """Copies of all tensors that `restore` needs."""
    state = {
        "active_runs": trainer.active_runs,
        "best_epochs": trainer.best_epochs,
        "finished_epochs": torch.from_numpy(trainer.finished_epochs),
        "history": trainer.history.table(),
    }
    for name in EARLY_STOPPING:
        state[f"early_stopping.{name}"] = getattr(trainer.early_stopping, name)
    for name, weight in trainer.model.named_parameters():
        state[f"weights.{name}"] = weight.data
        state[f"best_weights.{name}"] = trainer.best_weights[name]
        state[f"finished_weights.{name}"] = trainer.finished_weights[name]
        moments = trainer.optimizer.state.get(weight, {})
        state |= {f"{moment}.{name}": moments[moment] for moment in MOMENTS if moment in moments}
    return {name: tensor.clone() for name, tensor in state.items()}
