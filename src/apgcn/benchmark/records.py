"""What is kept of a finished run? One frozen record, one JSON line."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeGuard, get_args

import numpy as np

from apgcn.benchmark.config import Purpose, RunConfig, RunKey
from apgcn.data.splits import SET_NAMES
from apgcn.errors import InvalidInput
from apgcn.models.registry import MODELS
from apgcn.training.runs import RunResult


@dataclass(frozen=True)
class Record:
    """A finished run.

    The accuracies are those of the best weights; null where the split has no such nodes. `steps_histogram` counts nodes
    by K = 1..T. The K of every node stands in row `steps_row` of the array in `steps_file`. `seconds` is the run's part
    of its pack's time, by epochs; `batch_runs` says how many trained together.
    """

    key: str
    dataset: str
    model: str
    hyperparameters: Mapping[str, Any]
    train_per_class: int
    seed_set: str
    split: int
    init: int
    train_accuracy: float | None
    stopping_accuracy: float | None
    validation_accuracy: float | None
    test_accuracy: float | None
    steps_mean: float
    steps_histogram: tuple[int, ...]
    steps_file: str
    steps_row: int
    best_epoch: int
    epochs: int
    seconds: float
    batch_runs: int
    device: str
    hardware: str
    versions: Mapping[str, str]
    command: str

    @cached_property
    def run_config(self) -> RunConfig:
        seed_set: Any = self.seed_set
        return RunConfig.of(
            self.dataset, self.model, self.hyperparameters, train_per_class=self.train_per_class, seed_set=seed_set
        )

    @property
    def run_key(self) -> RunKey:
        return RunKey(self.run_config, self.split, self.init)

    @property
    def line(self) -> dict[str, Any]:
        """As it is written."""
        return asdict(self)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Record:
        """As it was read.

        Raises
        ------
        InvalidInput
            If a field is missing or no value of its type, or if the key is not that of the fields beside it.
        """
        record = cls(**values_of(cls, line))
        if record.seed_set not in get_args(Purpose):
            raise InvalidInput(f"purpose must be one of {', '.join(get_args(Purpose))}, got {record.seed_set!r}.")
        if record.model in MODELS and record.run_key.text != record.key:  # of a model that is gone, it cannot be told
            raise InvalidInput(f"key must be that of the other fields, {record.run_key.text!r}, got {record.key!r}.")
        return record

    @classmethod
    def of_result(
        cls,
        key: RunKey,
        result: RunResult,
        *,
        steps_file: str,
        steps_row: int,
        seconds: float,
        batch_runs: int,
        origin: Mapping[str, Any],
    ) -> Record:
        """What a training found. `origin` has the device, hardware, versions and command."""
        accuracies: dict[str, Any] = {
            f"{name}_accuracy": _none_for_nan(result.accuracy(getattr(result.run.split, name))) for name in SET_NAMES
        }
        run_config = key.run_config
        hyperparameters = dict(run_config.hyperparameters)
        longest = max(int(hyperparameters.get("max_steps", 0)), int(result.steps.max()))
        return cls(
            key=key.text,
            dataset=run_config.dataset,
            model=run_config.model,
            hyperparameters=hyperparameters,
            train_per_class=run_config.train_per_class,
            seed_set=run_config.seed_set,
            split=key.split,
            init=key.init,
            **accuracies,
            steps_mean=float(result.steps.mean()),
            steps_histogram=tuple(np.bincount(result.steps, minlength=longest + 1)[1:].tolist()),
            steps_file=steps_file,
            steps_row=steps_row,
            best_epoch=result.best_epoch,
            epochs=result.epochs,
            seconds=seconds,
            batch_runs=batch_runs,
            **origin,
        )


def values_of(kind: Any, line: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a kind of record, from a line."""
    return {field.name: _value(field.name, str(field.type), line) for field in fields(kind)}


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _value(name: str, kind: str, line: Mapping[str, Any]) -> Any:
    """A field of a line, if it has the type that the record says."""
    if name not in line:
        raise InvalidInput(f"{name} must be there, but it is not.")
    value = line[name]
    if value is None and kind.endswith("| None"):
        return None
    fits, needed = _KINDS["share" if name.endswith("_accuracy") else kind.removesuffix(" | None")]
    if not fits(value):
        raise InvalidInput(f"{name} must be {needed}, got {_short(value)}.")
    return tuple(value) if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def is_text(value: Any) -> bool:
    """Whether it is a text that can be written down: JSON lets half a character pass."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def is_count(value: Any) -> bool:
    """Whether it is a whole number from 0 to what a file of records can hold."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST


def is_hyperparameters(value: Any) -> bool:
    """Whether it holds scalars by name."""
    return isinstance(value, dict) and all(
        is_text(one) or is_number(one) or isinstance(one, bool) for one in value.values()
    )


MOST = 2**53
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "str": (is_text, "text"),
    "int": (is_count, "a whole number >= 0"),
    "float": (lambda value: is_number(value) and value >= 0, "a number >= 0"),
    "share": (lambda value: is_number(value) and 0 <= value <= 1, "between 0 and 1"),
    "tuple[int, ...]": (
        lambda value: isinstance(value, list) and all(map(is_count, value)) and any(value),
        "a list of counts that are not all 0",
    ),
    "Mapping[str, Any]": (is_hyperparameters, "an object of texts, numbers and truths"),
    "Mapping[str, str]": (
        lambda value: is_hyperparameters(value) and all(map(is_text, value.values())),
        "an object of texts",
    ),
}


class _Measured:
    """Written and read as its fields."""

    @property
    def line(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
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
    hyperparameters: Mapping[str, Any]
    batch_runs: int
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
    def run_config(self) -> RunConfig:
        return RunConfig.of(self.dataset, self.model, self.hyperparameters)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """As it was read; refused if the key is not that of the fields beside it."""
        record = super().from_json(line)
        key = timing_key(record.run_config, record.hardware, batch_runs=record.batch_runs)
        if record.model in MODELS and record.key != key:  # of a model that is gone, it cannot be told
            raise InvalidInput(f"key must be that of the other fields, {key!r}, got {record.key!r}.")
        return record


def timing_key(run_config: RunConfig, hardware: str, *, batch_runs: int = 1) -> str:
    """What is timed, and on what."""
    return f"{run_config.text}/batch_runs={batch_runs}/{hardware}"


@dataclass(frozen=True)
class PlannedBatch:
    """Runs of one condition that train as one tensor program.

    Packs of another composition agree only up to rounding: a pack that was interrupted is trained again as it was.
    """

    run_config: RunConfig
    runs: tuple[tuple[int, int], ...]  # split, initialisation
    device: str

    @classmethod
    def of(cls, keys: list[RunKey], device: str) -> PlannedBatch:
        return cls(keys[0].run_config, tuple((key.split, key.init) for key in keys), device)

    @property
    def keys(self) -> list[RunKey]:
        return [RunKey(self.run_config, split, init) for split, init in self.runs]

    @property
    def key(self) -> str:
        """Short, and good for a file: the graph, the model, and a digest of what is in the pack."""
        text = "\n".join([self.device, *(key.text for key in self.keys)])
        plain = "".join(letter for letter in f"{self.run_config.dataset}-{self.run_config.model}" if letter in _PLAIN)
        return f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    @property
    def line(self) -> dict[str, Any]:
        """As it is written into the plan."""
        run_config = {**vars(self.run_config), "hyperparameters": dict(self.run_config.hyperparameters)}
        return {"key": self.key, "run_config": run_config, "runs": self.runs, "device": self.device}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> PlannedBatch:
        """As it was read."""
        run_config, runs = line.get("run_config"), line.get("runs")
        if not _is_condition(run_config) or not _are_runs(runs) or line.get("device") not in ("cpu", "cuda"):
            raise InvalidInput("a pack must have a condition, runs and a device.")
        pack = cls(RunConfig.of(**run_config), tuple((split, number) for split, number in runs), line["device"])
        if pack.run_config.model in MODELS and pack.key != line["key"]:
            raise InvalidInput(f"key must be that of the other fields, {pack.key!r}, got {line['key']!r}.")
        return pack


def _is_condition(value: Any) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(value, dict)
        and value.keys() == {field.name for field in fields(RunConfig)}
        and all(is_text(value[name]) for name in ("dataset", "model"))
        and is_hyperparameters(value["hyperparameters"])
        and is_count(value["train_per_class"])
        and value["seed_set"] in get_args(Purpose)
    )


def _are_runs(value: Any) -> TypeGuard[list[list[int]]]:
    """Whether it is a list of pairs of split and initialisation."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(pair, list) and len(pair) == 2 and all(map(is_count, pair)) for pair in value)
    )


_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
