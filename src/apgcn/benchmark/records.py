"""Records of finished runs, timed epochs, counted graphs and planned run batches: frozen, one JSON object each.

Reading checks every field by a few functions below, and not with msgspec or pydantic. Either would be one more package
to install for a table of seven types, and the messages, the checks across fields (a record's key must follow from its
other fields) and the refusal of lone surrogates and of numbers beyond 2**53 would still be ours.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeGuard, get_args

from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.data.splits import SET_NAMES, SeedSet
from apgcn.errors import InvalidInput
from apgcn.models.registry import MODELS
from apgcn.training.runs import RunResult


class JSONRecord:
    """A dataclass that is written as a JSON object of its fields, and checked when it is read."""

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self)  # type: ignore[call-overload]

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        """The record of a JSON object.

        Raises
        ------
        InvalidInput
            If a field is missing or is not of its type, or if the key does not follow from the other fields.
        """
        return cls(**parse_fields(cls, line))


@dataclass(frozen=True)
class Record(JSONRecord):
    """A finished run.

    The accuracies are those of the best weights; null where the split has no such nodes. `steps_histogram` counts nodes
    by K = 1..T, from K = 0 where `min_steps` is 0. The K of every node is row `steps_row` of the array in `steps_file`.
    `seconds` is the run's fraction of the time of its run batch, by epochs; `batch_runs` counts the runs that trained
    together. `threads` is the maximum number of threads on a CPU; null on a GPU, and missing in older records, whose
    runs had one. `test_roc_auc` is there for graphs of two classes only.
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
    threads: int | None = None
    test_roc_auc: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, without the ROC AUC where there is none."""
        return {name: value for name, value in super().to_json().items() if (name, value) != ("test_roc_auc", None)}

    @cached_property
    def run_config(self) -> RunConfig:
        seed_set: Any = self.seed_set
        return RunConfig.create(
            self.dataset, self.model, self.hyperparameters, train_per_class=self.train_per_class, seed_set=seed_set
        )

    @property
    def run_key(self) -> RunKey:
        return RunKey(self.run_config, self.split, self.init)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        record = super().from_json(line)
        if record.seed_set not in get_args(SeedSet):
            raise InvalidInput(f"seed_set must be one of {', '.join(get_args(SeedSet))}, got {record.seed_set!r}.")
        check_key(record.key, record.run_key.text, model=record.model)
        record._check_plausible()
        return record

    @property
    def first_step(self) -> int:
        """The K that `steps_histogram` begins with, 0 or 1."""
        if self.model in MODELS:
            return self.run_config.configs[0].first_step
        return min(self.hyperparameters.get("min_steps", 1), 1)

    def _check_plausible(self) -> None:
        """Check that the fields can be those of one run."""
        steps = range(self.first_step, self.first_step + len(self.steps_histogram))
        mean = sum(map(operator.mul, steps, self.steps_histogram)) / sum(self.steps_histogram)
        if not math.isclose(self.steps_mean, mean, rel_tol=1e-6):
            raise InvalidInput(f"steps_mean must be that of steps_histogram, {mean}, got {self.steps_mean}.")
        max_steps = self.hyperparameters.get("max_steps", steps[-1])
        if self.model in MODELS and steps[-1] != max_steps:
            counts = f"max_steps = {max_steps}" if self.first_step else f"max_steps + 1 = {max_steps + 1}"
            raise InvalidInput(f"steps_histogram must have {counts} counts, got {len(steps)}.")
        if self.best_epoch > self.epochs:
            raise InvalidInput(f"best_epoch must be at most epochs, {self.epochs}, got {self.best_epoch}.")

    @classmethod
    def from_result(
        cls,
        key: RunKey,
        result: RunResult,
        *,
        steps_file: str,
        steps_row: int,
        seconds: float,
        batch_runs: int,
        provenance: Mapping[str, Any],
    ) -> Record:
        """The record of a training result. `provenance` has the device, hardware, threads, versions and command."""
        accuracies: dict[str, Any] = {
            f"{name}_accuracy": _none_for_nan(result.accuracy(getattr(result.run.split, name))) for name in SET_NAMES
        }
        run_config = key.run_config
        hyperparameters = dict(run_config.hyperparameters)
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
            test_roc_auc=_none_for_nan(result.roc_auc(result.run.split.test)),
            steps_mean=float(result.steps.mean()),
            steps_histogram=tuple(run_config.configs[0].steps_histogram(result.steps)),
            steps_file=steps_file,
            steps_row=steps_row,
            best_epoch=result.best_epoch,
            epochs=result.epochs,
            seconds=seconds,
            batch_runs=batch_runs,
            **provenance,
        )


@dataclass(frozen=True)
class GraphRecord(JSONRecord):
    """Size of a graph after cleaning; the key is its name, and every undirected edge counts once."""

    key: str
    classes: int
    features: int
    nodes: int
    edges: int
    versions: Mapping[str, str]
    command: str


@dataclass(frozen=True)
class TimingRecord(JSONRecord):
    """Time of an epoch: medians over epochs, in milliseconds, for all runs of a run batch together.

    An epoch is a training step and an evaluation. `epoch_low` and `epoch_high` are its quartiles. `threads` is as in
    `Record`.
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
    threads: int | None = None

    @cached_property
    def run_config(self) -> RunConfig:
        return RunConfig.create(self.dataset, self.model, self.hyperparameters)

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> Self:
        record = super().from_json(line)
        key = timing_key(record.run_config, record.hardware, batch_runs=record.batch_runs)
        check_key(record.key, key, model=record.model)
        return record


def timing_key(run_config: RunConfig, hardware: str, *, batch_runs: int = 1) -> str:
    """Key of a timing: the run configuration, the number of runs that train together, and the hardware."""
    return f"{run_config.text}/batch_runs={batch_runs}/{hardware}"


@dataclass(frozen=True)
class PlannedBatch:
    """Runs of one run configuration that one process trains; which runs share a batch changes no record."""

    run_config: RunConfig
    runs: tuple[tuple[int, int], ...]  # seed of the split, number of the initialisation
    device: str

    @classmethod
    def from_keys(cls, keys: list[RunKey], device: str) -> PlannedBatch:
        """The run batch of keys that share a run configuration."""
        return cls(keys[0].run_config, tuple((key.split, key.init) for key in keys), device)

    @property
    def keys(self) -> list[RunKey]:
        return [RunKey(self.run_config, split, init) for split, init in self.runs]

    @property
    def key(self) -> str:
        """Short name that is valid as a file name: the graph, the model, and a digest of device and run keys."""
        text = "\n".join([self.device, *(key.text for key in self.keys)])
        name = f"{self.run_config.dataset}-{self.run_config.model}"
        safe = "".join(letter for letter in name if letter in _SAFE_IN_FILE_NAMES)
        return f"{safe}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON values."""
        run_config = {field.name: getattr(self.run_config, field.name) for field in fields(RunConfig)}
        run_config["hyperparameters"] = dict(self.run_config.hyperparameters)
        return {"key": self.key, "run_config": run_config, "runs": self.runs, "device": self.device}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> PlannedBatch:
        """The run batch of a JSON object; raises InvalidInput if it is not one."""
        run_config, runs = line.get("run_config"), line.get("runs")
        if not _is_run_config(run_config) or not _is_runs(runs) or line.get("device") not in ("cpu", "cuda"):
            raise InvalidInput("a planned batch must have a run_config, runs and a device.")
        batch = cls(RunConfig.create(**run_config), tuple((split, init) for split, init in runs), line["device"])
        check_key(line["key"], batch.key, model=batch.run_config.model)
        return batch


def check_key(key: str, expected: str, *, model: str) -> None:
    """Check that a key follows from the other fields, unless the model is no longer registered."""
    if model in MODELS and key != expected:
        raise InvalidInput(f"key must be that of the other fields, {expected!r}, got {key!r}.")


def parse_fields(record_class: Any, line: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record class, from a JSON object, each checked; one that older records lack may be missing."""
    return {
        field.name: _parse_field(field.name, str(field.type), line)
        for field in fields(record_class)
        if field.name in line or field.default is MISSING
    }


def _parse_field(name: str, annotation: str, line: Mapping[str, Any]) -> Any:
    """The value of a field, if it is of the annotated type."""
    if name not in line:
        raise InvalidInput(f"{name} must be there, but it is not.")
    value = line[name]
    if value is None and annotation.endswith("| None"):
        return None
    is_valid, expected = _TYPES[
        "accuracy" if name.endswith(("_accuracy", "_roc_auc")) else annotation.removesuffix(" | None")
    ]
    if not is_valid(value):
        raise InvalidInput(f"{name} must be {expected}, got {_short(value)}.")
    return tuple(value) if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


MAX_NUMBER = 2**53  # beyond it JSON readers that use floats round integers


def _is_string(value: Any) -> bool:
    """Whether the value is a string that can be encoded: JSON admits lone surrogates."""
    return isinstance(value, str) and value.encode(errors="replace").decode() == value


def _is_count(value: Any) -> bool:
    """Whether the value is an integer from 0 to `MAX_NUMBER`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER


def _is_number(value: Any) -> bool:
    """Whether the value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER


def _is_hyperparameters(value: Any) -> bool:
    """Whether the value is an object of scalars."""
    return isinstance(value, dict) and all(
        _is_string(item) or _is_number(item) or isinstance(item, bool) for item in value.values()
    )


def _is_run_config(value: Any) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(value, dict)
        and value.keys() == {field.name for field in fields(RunConfig)}
        and all(_is_string(value[name]) for name in ("dataset", "model"))
        and _is_hyperparameters(value["hyperparameters"])
        and _is_count(value["train_per_class"])
        and value["seed_set"] in get_args(SeedSet)
    )


def _is_runs(value: Any) -> TypeGuard[list[list[int]]]:
    """Whether the value is a list of pairs of split and initialisation."""
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(pair, list) and len(pair) == 2 and all(map(_is_count, pair)) for pair in value)
    )


_TYPES: dict[str, tuple[Callable[[Any], bool], str]] = {  # by annotation
    "str": (_is_string, "a string"),
    "int": (_is_count, "an integer >= 0"),
    "float": (lambda value: _is_number(value) and value >= 0, "a number >= 0"),
    "accuracy": (lambda value: _is_number(value) and 0 <= value <= 1, "between 0 and 1"),
    "tuple[int, ...]": (
        lambda value: isinstance(value, list) and all(map(_is_count, value)) and any(value),
        "a list of counts that are not all 0",
    ),
    "Mapping[str, Any]": (_is_hyperparameters, "an object of strings, numbers and bools"),
    "Mapping[str, str]": (
        lambda value: _is_hyperparameters(value) and all(map(_is_string, value.values())),
        "an object of strings",
    ),
}
_SAFE_IN_FILE_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
