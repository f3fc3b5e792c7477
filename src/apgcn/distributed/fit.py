"""What do ranks make of a training? One model, as `own.fitting` makes it, and what each says of its rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.special import softmax

from apgcn.distributed.communication import Communicator
from apgcn.distributed.train import Trained
from apgcn.errors import InvalidInput
from apgcn.inference.calibration import temperature_for
from apgcn.inference.evaluation import judged_on
from apgcn.inference.predictions import Predictions
from apgcn.inference.trained_model import TrainedModel


@dataclass(frozen=True, eq=False)
class FittedPart:
    """The model, the same on every rank, and what it says of the rows that are here."""

    fitted: TrainedModel
    said: Predictions


def fitted_together(world: Communicator, trained: Trained, class_names: tuple[str, ...], features: int) -> FittedPart:
    """Drop runs that have diverged, set the temperature and judge, on held-out nodes of all ranks."""
    pack, said = trained.pack, trained.said
    split = pack.runs[0].split
    best_epochs, epochs = pack.lasted.tolist()
    finite = [number for number, epoch in enumerate(best_epochs) if epoch > 0]
    if not finite:
        raise InvalidInput("the loss was never finite; make learning_rate or l2 smaller, or scale the features.")
    logits = said.output[finite].cpu().numpy()
    held, labels = {}, {}
    for name in ("stopping", "test"):
        here = pack.part.local(getattr(split, name))
        rows = torch.as_tensor(logits[:, here]).transpose(0, 1)  # nodes first
        held[name] = world.to_first(rows.to(world.device)).transpose(0, 1).numpy()
        labels[name] = world.to_first(torch.as_tensor(pack.part.labels[here], device=world.device)).numpy()
    temperature = temperature_for(held["stopping"], labels["stopping"]) if world.rank == 0 else 1.0
    temperature = world.all_gather(temperature)[0]
    notes = {
        "epochs": [epochs[number] for number in finite],
        "best_epoch": [best_epochs[number] for number in finite],
        "diverged": len(best_epochs) - len(finite),
        "ranks": world.size,
    }
    if world.rank == 0:
        for name in ("stopping", "test"):
            mean = softmax(held[name] / temperature, axis=-1).mean(axis=0)
            notes[name] = judged_on(mean, labels[name])
    fitted = TrainedModel(
        model=pack.model.config,  # type: ignore[arg-type]
        training=pack.config,
        weights={name: weight[finite].cpu() for name, weight in pack.kept.items()},
        class_names=class_names,
        features=features,
        split=split,
        temperature=temperature,
        notes=notes,
    )
    steps, remainder = (value[finite].cpu().numpy() for value in (said.steps, said.remainder))
    probabilities = softmax(logits / temperature, axis=-1)
    return FittedPart(fitted, world.together(lambda: Predictions.of(probabilities, steps, remainder)))
