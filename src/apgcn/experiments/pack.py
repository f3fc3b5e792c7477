"""Which runs train together? Packs are planned once and written down, so that an interruption does not change them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apgcn.errors import InvalidInput
from apgcn.experiments.keys import Condition, RunKey


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
        try:
            condition = Condition.of(**line["condition"])
            return cls(condition, tuple((int(split), int(number)) for split, number in line["runs"]), line["device"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"a pack must have condition, runs and device ({type(error).__name__}).") from error


_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
