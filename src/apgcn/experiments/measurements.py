"""What is kept of what is measured without a training? Frozen records, one JSON line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self

from apgcn.errors import InvalidInput
from apgcn.experiments.keys import Condition
from apgcn.experiments.record import values_of
from apgcn.models.catalogue import MODELS


class _Measured:
    """Written and read as its fields."""

    @property
    def line(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> Self:
        return cls(**values_of(cls, line))


@dataclass(frozen=True)
class GraphRecord(_Measured):
    """A graph after cleaning; the key is its name, every undirected edge counts once."""

    key: str
    classes: int
    features: int
    nodes: int
    edges: int
    versions: Mapping[str, str]
    command: str


@dataclass(frozen=True)
class TimingRecord(_Measured):
    """How long an epoch takes: medians over epochs, in milliseconds, for all runs of a pack together.

    An epoch is a training step and an evaluation. `epoch_low` and `epoch_high` are its quartiles.
    """

    key: str
    dataset: str
    model: str
    settings: Mapping[str, Any]
    pack_runs: int
    epochs: int
    step_ms: float
    evaluation_ms: float
    epoch_ms: float
    epoch_low: float
    epoch_high: float
    device: str
    hardware: str
    versions: Mapping[str, str]
    command: str

    @cached_property
    def condition(self) -> Condition:
        return Condition.of(self.dataset, self.model, self.settings)

    @classmethod
    def of_line(cls, line: Mapping[str, Any]) -> Self:
        """As it was read; refused if the key is not that of the fields beside it."""
        record = super().of_line(line)
        key = timing_key(record.condition, record.hardware, pack_runs=record.pack_runs)
        if record.model in MODELS and record.key != key:  # of a model that is gone, it cannot be told
            raise InvalidInput(f"key must be that of the other fields, {key!r}, got {record.key!r}.")
        return record


def timing_key(condition: Condition, hardware: str, *, pack_runs: int = 1) -> str:
    """What is timed, and on what."""
    return f"{condition.text}/pack={pack_runs}/{hardware}"
