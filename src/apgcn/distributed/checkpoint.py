"""From where does a training go on that was ended? From a file with all that its ranks know in common.

Weights, the optimiser's moments, patience, the best weights and the history; noise follows from the epoch. So a
training that goes on is, number by number, the one that was not disturbed, if it has as many ranks. Rank 0 writes the
file; nothing in it is unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from apgcn.errors import BrokenFile, InvalidInput
from apgcn.io.whole import write_whole
from apgcn.training.loop import Pack

MOMENTS = ("exp_avg", "exp_avg_sq", "step")
PATIENCE = ("last_improvement", "best_accuracy", "loss_at_best", "lowest_loss")


def write_checkpoint(path: Path, pack: Pack, facts: dict[str, Any]) -> None:
    """Write what a pack knows, whole or not at all; `facts` say which training it is."""
    from safetensors.torch import save

    content = {name: tensor.detach().cpu().contiguous() for name, tensor in _state(pack).items()}
    metadata = {"facts": json.dumps(facts, sort_keys=True), "epochs": str(pack.epochs)}
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
        of, epochs = json.loads(told["facts"]), int(told["epochs"])
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise BrokenFile(
            f"{path} must be a checkpoint, but cannot be read ({error}); remove it to begin anew."
        ) from error
    if of != facts:
        other = difference(facts, of)
        raise InvalidInput(f"{path} must be of the same training, but {other}; remove it, or name another --out.")
    return state, epochs


def difference(facts: dict[str, Any], of: dict[str, Any]) -> str:
    """What two trainings do not have in common, in words."""
    name = next(name for name in facts if of.get(name) != facts[name])
    values = [str(one) for one in (facts[name], of.get(name))]
    told = f" ({values[0]} here, {values[1]} there)" if max(map(len, values)) < 40 else ""
    return f"the {name} differs{told}"


def restore(pack: Pack, state: dict[str, Tensor], epochs: int) -> None:
    """Let a new pack know what another one knew."""
    pack.epochs = epochs
    members = state["members"].to(pack.device)
    state = {name: tensor.to(pack.device) for name, tensor in state.items()}
    pack.members = members
    pack.noise.select(members)
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


def _state(pack: Pack) -> dict[str, Tensor]:
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
