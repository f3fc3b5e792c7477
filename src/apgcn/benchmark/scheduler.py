"""Which runs train together? Packs are planned once and written down, so that an interruption does not change them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from apgcn.benchmark.config import RunConfig, RunKey, group_by_config
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.store import Store
from apgcn.training.batching import evenly

MOMENT = 0.05  # seconds


def packs_for(
    store: Store, keys: Sequence[RunKey], *, device: str, most: Callable[[RunConfig], int]
) -> list[PlannedBatch]:
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
        for run_config, members in group_by_config(keys).items():
            if any(key.text in todo for key in members):
                for part in evenly(
                    members, most=most(run_config)
                ):  # of all runs, so that what is done has no say in it
                    left = [key for key in part if key.text in todo]
                    new += [PlannedBatch.of(left, device)] if left else []
        store.plan(new)
    return [*reversed(packs), *new]


def _stands(store: Store, pack: PlannedBatch, *, device: str, most: Callable[[RunConfig], int]) -> bool:
    """Whether a planned pack is to be trained as it is."""
    claim = store.claim(pack)
    if claim is None:  # somebody is training it, or has only looked whether somebody is
        time.sleep(MOMENT)
        claim = store.claim(pack)
    if claim is None:
        return True
    claim.give_back()
    begun = len(store.missing(pack.keys)) < len(pack.keys)
    return begun or (pack.device == device and len(pack.keys) <= most(pack.run_config))


def replaced(store: Store, pack: PlannedBatch) -> bool:
    """Whether runs of a pack that are missing were planned anew, by a process that came later."""
    missing = set(store.missing(pack.keys))
    planned = store.planned
    return any(not missing.isdisjoint(later.keys) for later in planned[planned.index(pack) + 1 :])
