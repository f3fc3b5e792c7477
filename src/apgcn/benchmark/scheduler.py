"""Which runs train together? Packs are planned once and written down, so that an interruption does not change them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeGuard, get_args

from apgcn.benchmark.config import Condition, Purpose, RunKey, by_condition
from apgcn.benchmark.records import is_count, is_settings, is_text
from apgcn.benchmark.store import Store
from apgcn.errors import InvalidInput
from apgcn.models.registry import MODELS
from apgcn.training.batching import evenly


@dataclass(frozen=True)
class PlannedPack:
    """Runs of one condition that train as one tensor program.

    Packs of another composition agree only up to rounding: a pack that was interrupted is trained again as it was.
    """

    condition: Condition
    runs: tuple[tuple[int, int], ...]  # split, initialisation
    device: str

    @classmethod
    def of(cls, keys: list[RunKey], device: str) -> PlannedPack:
        return cls(keys[0].condition, tuple((key.split, key.initialisation) for key in keys), device)

    @property
    def keys(self) -> list[RunKey]:
        return [RunKey(self.condition, split, initialisation) for split, initialisation in self.runs]

    @property
    def key(self) -> str:
        """Short, and good for a file: the graph, the model, and a digest of what is in the pack."""
        text = "\n".join([self.device, *(key.text for key in self.keys)])
        plain = "".join(letter for letter in f"{self.condition.dataset}-{self.condition.model}" if letter in _PLAIN)
        return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def line(self) -> dict[str, Any]:
        """As it is written into the plan."""
        condition = {**vars(self.condition), "settings": dict(self.condition.settings)}
        return {"key": self.key, "condition": condition, "runs": self.runs, "device": self.device}

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> PlannedPack:
        """As it was read."""
        condition, runs = line.get("condition"), line.get("runs")
        if not _is_condition(condition) or not _are_runs(runs) or line.get("device") not in ("cpu", "cuda"):
            raise InvalidInput("a pack must have a condition, runs and a device.")
        pack = cls(Condition.of(**condition), tuple((split, number) for split, number in runs), line["device"])
        if pack.condition.model in MODELS and pack.key != line["key"]:
            raise InvalidInput(f"key must be that of the other fields, {pack.key!r}, got {line['key']!r}.")
        return pack


def _is_condition(value: Any) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(value, dict)
        and value.keys() == {field.name for field in fields(Condition)}
        and all(is_text(value[name]) for name in ("dataset", "model"))
        and is_settings(value["settings"])
        and is_count(value["per_class"])
        and value["purpose"] in get_args(Purpose)
    )


def _are_runs(value: Any) -> TypeGuard[list[list[int]]]:
    """Whether it is a list of pairs of split and initialisation."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(pair, list) and len(pair) == 2 and all(map(is_count, pair)) for pair in value)
    )


_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"


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
