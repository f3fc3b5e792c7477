"""Which packs are left to train? Those that were planned before as they were, and new ones for the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from apgcn.experiments.keys import Condition, RunKey, by_condition
from apgcn.experiments.pack import PlannedPack
from apgcn.experiments.store import Store
from apgcn.training.packs import evenly

MOMENT = 0.05  # seconds


def packs_for(
    store: Store, keys: Sequence[RunKey], *, device: str, most: Callable[[Condition], int]
) -> list[PlannedPack]:
    """The packs that hold all keys without a record, every new one written into the store's plan.

    Parameters
    ----------
    device : str
        "cpu" or "cuda". A pack that nobody has begun is planned anew for another kind of device, or if it is now too
        large.
    most : function
        How many runs of a condition may train together.
    """
    with store.planning():
        todo = {key.text: key for key in store.missing(keys)}
        packs = []
        for pack in reversed(store.planned):  # the latest first: it may have replaced earlier ones
            wanted = [key.text for key in pack.keys if key.text in todo]
            if wanted and _stands(store, pack, device=device, most=most):
                packs.append(pack)
                for key in wanted:
                    del todo[key]
        new = []
        for condition, members in by_condition(keys).items():
            if any(key.text in todo for key in members):
                for part in evenly(members, most=most(condition)):  # of all runs, so that what is done has no say in it
                    left = [key for key in part if key.text in todo]
                    new += [PlannedPack.of(left, device)] if left else []
        store.plan(new)
    return [*reversed(packs), *new]


def _stands(store: Store, pack: PlannedPack, *, device: str, most: Callable[[Condition], int]) -> bool:
    """Whether a planned pack is to be trained as it is."""
    claim = store.claim(pack)
    if claim is None:  # somebody is training it, or has only looked whether somebody is
        time.sleep(MOMENT)
        claim = store.claim(pack)
    if claim is None:
        return True
    claim.give_back()
    begun = len(store.missing(pack.keys)) < len(pack.keys)
    return begun or (pack.device == device and len(pack.keys) <= most(pack.condition))


def replaced(store: Store, pack: PlannedPack) -> bool:
    """Whether runs of a pack that are missing were planned anew, by a process that came later."""
    missing = set(store.missing(pack.keys))
    planned = store.planned
    return any(not missing.isdisjoint(later.keys) for later in planned[planned.index(pack) + 1 :])
