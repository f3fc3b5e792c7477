"""From where does a training go on that was ended? From a file with all that its ranks know in common.

Weights, the optimiser's moments, patience, the best weights and the history; noise follows from the epoch. So a
training that goes on is, number by number, the one that was not disturbed, if it has as many ranks with the same rows.
Rank 0 writes the file; nothing in it is unpickled.
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

from apgcn._utils.atomic import write_whole
from apgcn.distributed.communication import Communicator
from apgcn.errors import BrokenFile, InvalidInput
from apgcn.training.trainer import BatchedTrainer

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
MAY_DIFFER = ("partition", "number of ranks", "presence of numba")  # dropout is then another one, but no worse
KEEP_EVERY = 5.0  # seconds: a checkpoint
PATIENCE = ("last_improvement", "best_accuracy", "loss_at_best", "lowest_loss")


def write_checkpoint(path: Path, pack: BatchedTrainer, facts: dict[str, Any]) -> None:
    """Write what a pack knows, whole or not at all; `facts` say which training it is."""
    from safetensors.torch import save

    path.parent.mkdir(parents=True, exist_ok=True)
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in _state(pack).items()}
    metadata = {"facts": json.dumps(facts, sort_keys=True), "epochs": str(pack.epochs)}
    metadata["digest"] = _digest(content, metadata)
    write_whole(path, lambda file: file.write(save(content, metadata)))


def read_checkpoint(path: Path, facts: dict[str, Any]) -> tuple[dict[str, Tensor], int]:
    """What a pack knew, and after how many epochs.

    Raises
    ------
    InvalidInput
        If it is of another training.
    BrokenFile
        If it is no checkpoint.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            told = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if told.pop("digest", None) != _digest(state, told):
            raise ValueError("it is damaged")
        of, epochs = json.loads(told["facts"]), int(told["epochs"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise BrokenFile(
            f"{path} must be a checkpoint, but cannot be read ({error}); remove it to begin anew."
        ) from error
    same = [name for name in facts if name not in MAY_DIFFER]
    if any(of.get(name) != facts[name] for name in same):
        other = difference({name: facts[name] for name in same}, of)
        raise InvalidInput(f"{path} must be of the same training, but {other}; remove it, or name another --out.")
    return state, epochs


def _digest(content: dict[str, Tensor], metadata: dict[str, str]) -> str:
    found = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(content.items()):
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        found.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def difference(facts: dict[str, Any], of: dict[str, Any]) -> str:
    """What two trainings do not have in common, in words."""
    name = next(name for name in facts if of.get(name) != facts[name])
    values = [str(one) for one in (facts[name], of.get(name))]
    told = f" ({values[0]} here, {values[1]} there)" if max(map(len, values)) < 40 else ""
    return f"the {name} differs{told}"


class Kept:
    """The checkpoint of rank 0, which the others do not write."""

    def __init__(self, path: Path | None):
        self._path, self._at = path, -np.inf

    def keep(self, pack: BatchedTrainer, facts: dict[str, Any]) -> None:
        """Write it, if the last one is old."""
        if self._path is not None and pack.going and time.monotonic() - self._at > KEEP_EVERY:
            try:
                write_checkpoint(self._path, pack, facts)
            except OSError as error:
                raise InvalidInput(
                    f"{self._path} must be writable, for a checkpoint, but is not ({error.strerror}); make room, or "
                    "name another --out."
                ) from error
            self._at = time.monotonic()


def go_on(world: Communicator, pack: BatchedTrainer, path: Path | None, facts: dict[str, Any]) -> None:
    """Let all ranks know what the checkpoint of rank 0 has kept, where there is one."""

    def read() -> tuple[dict[str, Tensor], int] | None:
        if world.rank > 0 or path is None or not path.is_file():
            return None
        return read_checkpoint(path, facts)

    found = world.together(read)
    state, epochs = found or ({}, 0)
    shapes = {name: [list(tensor.shape), str(tensor.dtype).removeprefix("torch.")] for name, tensor in state.items()}
    shapes, epochs = world.all_gather([shapes, epochs])[0]
    if not shapes:
        return
    common = {
        name: world.from_first(state.get(name), shape=tuple(shape), dtype=getattr(torch, dtype))
        for name, (shape, dtype) in shapes.items()
    }
    restore(pack, common, epochs)


def restore(pack: BatchedTrainer, state: dict[str, Tensor], epochs: int) -> None:
    """Let a new pack know what another one knew."""
    pack.epochs = epochs
    members = state["members"].to(pack.device)
    state = {name: tensor.to(pack.device) for name, tensor in state.items()}
    pack.members = members
    pack.rng.select(members)
    pack.stopping.select(members)
    pack.train, pack.stop = pack.train.select(members), pack.stop.select(members)
    pack.best_epochs = state["best_epochs"]
    pack.lasted = state["lasted"].cpu().numpy()
    for name in PATIENCE:
        setattr(pack.stopping, name, state[f"patience.{name}"])
    for name, weight in pack.model.named_parameters():
        weight.data = state[f"weight.{name}"]
        pack.best[name], pack.kept[name] = state[f"best.{name}"], state[f"kept.{name}"]
        moments = {one: state[f"{one}.{name}"] for one in MOMENTS if f"{one}.{name}" in state}
        if moments:
            pack.optimiser.state[weight] = moments
    pack.history.restore(state["history"])


def _state(pack: BatchedTrainer) -> dict[str, Tensor]:
    state = {
        "members": pack.members,
        "best_epochs": pack.best_epochs,
        "lasted": torch.from_numpy(pack.lasted),
        "history": pack.history.table(),
    }
    for name in PATIENCE:
        state[f"patience.{name}"] = getattr(pack.stopping, name)
    for name, weight in pack.model.named_parameters():
        state |= {f"weight.{name}": weight.data, f"best.{name}": pack.best[name], f"kept.{name}": pack.kept[name]}
        state |= {
            f"{one}.{name}": moment for one, moment in pack.optimiser.state.get(weight, {}).items() if one in MOMENTS
        }
    return {name: tensor.clone() for name, tensor in state.items()}
