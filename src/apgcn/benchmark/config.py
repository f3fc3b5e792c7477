"""Run configurations and run keys: what is trained on what, and which training run of it.

A plan is a list of `RunKey`. Its runs share a `RunConfig`, which converts between the two forms of hyperparameters: the
mapping that keys and records show, and the pair of dataclasses that training takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from apgcn._utils.validation import check_int, to_python
from apgcn.data.registry import DATASETS
from apgcn.data.splits import SEEDS, SeedSet, check_seed_set, default_seed_set
from apgcn.errors import InvalidInput
from apgcn.models.base import ModelConfig
from apgcn.models.presets import presets_for
from apgcn.models.registry import MODELS
from apgcn.training.config import TrainingConfig, configs_from_values, preset_config
from apgcn.training.runs import MAX_RUNS

TRAIN_PER_CLASS = 20  # training nodes per class, unless an experiment varies it
PROTOCOL_RUNS = 100  # 20 splits x 5 initialisations

Scalar = int | float | str  # a bool is an int
Configs = tuple[ModelConfig, TrainingConfig]


@dataclass(frozen=True)
class RunConfig:
    """Graph, model and all hyperparameters, which several runs share: tables show the means over these runs.

    Parameters
    ----------
    dataset, model : str
    hyperparameters : pairs of name and value, sorted by name
        All hyperparameters of the model and of its training.
    train_per_class : int
        Training nodes per class; 0 where the splits are published.
    seed_set : "test", "validation" or "published"
        The seeds that draw the splits, or the numbers of splits that are published with a graph. Splits of the
        validation seeds have no test nodes.
    """

    dataset: str
    model: str
    hyperparameters: tuple[tuple[str, Scalar], ...]
    train_per_class: int = TRAIN_PER_CLASS
    seed_set: SeedSet = "test"

    def __post_init__(self) -> None:
        check_seed_set(self.dataset, self.seed_set)
        if self.seed_set == "published" and self.train_per_class:
            raise InvalidInput(
                f"train_per_class of {self.dataset} must be 0, because its splits are published, got "
                f"{self.train_per_class}."
            )

    @classmethod
    def create(
        cls,
        dataset: str,
        model: str,
        hyperparameters: Mapping[str, Scalar],
        *,
        train_per_class: int | None = None,
        seed_set: SeedSet | None = None,
    ) -> RunConfig:
        """A run configuration from hyperparameters by name; of a known model, those left out have their defaults."""
        if model in MODELS:
            return cls.from_configs(dataset, *_configs(model, hyperparameters), train_per_class, seed_set)
        return cls(dataset, model, tuple(sorted(hyperparameters.items())), *_splits(dataset, train_per_class, seed_set))

    @classmethod
    def from_configs(
        cls,
        dataset: str,
        model: ModelConfig,
        training: TrainingConfig,
        train_per_class: int | None = None,
        seed_set: SeedSet | None = None,
    ) -> RunConfig:
        """A run configuration from the dataclasses of a model and of its training.

        By default the splits are those that models are evaluated on: drawn with `TRAIN_PER_CLASS` by the test seeds, or
        published.
        """
        hyperparameters = {name: to_python(value) for name, value in (vars(model) | vars(training)).items()}
        splits = _splits(dataset, train_per_class, seed_set)
        return cls(dataset, model.name, tuple(sorted(hyperparameters.items())), *splits)

    @classmethod
    def from_preset(
        cls,
        dataset: str,
        model: str,
        *,
        preset: str | None = None,
        train_per_class: int | None = None,
        seed_set: SeedSet | None = None,
        **overrides: Scalar,
    ) -> RunConfig:
        """A model's preset for a graph, by default the one behind the paper's tables, with overrides by name."""
        configs = preset_config(dataset, model=model, preset=preset, **overrides)
        return cls.from_configs(dataset, *configs, train_per_class, seed_set)

    @property
    def configs(self) -> Configs:
        """The dataclasses of the model and of its training; converted once per process."""
        return _configs(self.model, dict(self.hyperparameters))

    @property
    def non_defaults(self) -> dict[str, Scalar]:
        """The hyperparameters that differ from the defaults of the model and its training."""
        return _different(self.hyperparameters, default_hyperparameters(self.model))

    @property
    def preset(self) -> str:
        """Name of the preset with these hyperparameters, "paper", "published" or "tuned"; "" if there is none."""
        if self.model not in MODELS or self.dataset not in DATASETS:
            return ""
        for preset in presets_for(self.model, self.dataset):
            if self.hyperparameters == RunConfig.from_preset(self.dataset, self.model, preset=preset).hyperparameters:
                return preset
        return ""

    @property
    def changes(self) -> dict[str, Scalar]:
        """The hyperparameters that differ from the preset behind the paper's tables; all, if there is no preset."""
        if self.model not in MODELS or self.dataset not in DATASETS:
            return dict(self.hyperparameters)
        return _different(self.hyperparameters, dict(RunConfig.from_preset(self.dataset, self.model).hyperparameters))

    @property
    def text(self) -> str:
        """First part of the key of a run.

        Defaults are left out. So a hyperparameter that a later version adds does not change the keys of old records.
        """
        changed = ",".join(f"{name}={json.dumps(value)}" for name, value in self.non_defaults.items()) or "defaults"
        return f"{self.dataset}/{self.model}/{changed}/train_per_class={self.train_per_class}"

    def first_runs(self, count: int) -> list[RunKey]:
        """The first runs of the protocol: every split with one initialisation, then with the next.

        A model without initial weights has one run per split, and no more.
        """
        check_int("runs", count, maximum=MAX_RUNS)
        seeds = SEEDS[self.seed_set]
        if self.model in MODELS and not MODELS[self.model].has_weights:
            count = min(count, len(seeds))
        return [RunKey(self, seeds[number % len(seeds)], number // len(seeds)) for number in range(count)]


@dataclass(frozen=True)
class RunKey:
    """One training run: a run configuration, the seed of its split, and the number of its initialisation.

    >>> RunConfig.from_preset("citeseer", "apgcn").first_runs(1)[0].text
    'citeseer/apgcn/penalty=0.001/train_per_class=20/test=2144199730/init=0'
    """

    run_config: RunConfig
    split: int
    init: int

    @property
    def text(self) -> str:
        return f"{self.run_config.text}/{self.run_config.seed_set}={self.split}/init={self.init}"


def _splits(dataset: str, train_per_class: int | None, seed_set: SeedSet | None) -> tuple[int, SeedSet]:
    """Training nodes per class and the seed set; those that are None have their defaults for the graph."""
    seed_set = seed_set or default_seed_set(dataset)
    default = 0 if seed_set == "published" else TRAIN_PER_CLASS
    return default if train_per_class is None else train_per_class, seed_set


def default_hyperparameters(model: str) -> dict[str, Any]:
    """Defaults of a model and of its training, by name; empty for an unknown model."""
    if model not in MODELS:
        return {}
    return {field.name: field.default for config in (MODELS[model], TrainingConfig) for field in fields(config)}


def group_by_config(keys: Iterable[RunKey]) -> dict[RunConfig, list[RunKey]]:
    """The keys of each run configuration, in their order, without duplicates."""
    groups: dict[RunConfig, dict[RunKey, None]] = {}
    for key in keys:
        groups.setdefault(key.run_config, {})[key] = None
    return {run_config: list(members) for run_config, members in groups.items()}


@dataclass(frozen=True)
class Scope:
    """The models, graphs and number of runs that a table or figure covers.

    Parameters
    ----------
    models, datasets : tuples of str
    runs : int or None
        Number of runs of each run configuration; None for all that the store has.
    preset : str, optional
        The preset of every model (see `apgcn.models.presets`); by default the one behind the paper's tables.
    """

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    runs: int | None = PROTOCOL_RUNS
    preset: str | None = None

    def includes(self, dataset: str, model: str) -> bool:
        """Whether the model is known and has the preset for the graph."""
        return model in MODELS and (self.preset is None or self.preset in presets_for(model, dataset))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Pairs of graph and model that can be trained, graph by graph."""
        for dataset in self.datasets:
            yield from ((dataset, model) for model in self.models if self.includes(dataset, model))

    def run_config(self, dataset: str, model: str, **overrides: Any) -> RunConfig:
        """The run configuration of a model on a graph, with overrides by name."""
        return RunConfig.from_preset(dataset, model, preset=self.preset, **overrides)


_CACHE: dict[tuple[Any, str], Configs] = {}  # by config class and hyperparameters


def _configs(model: str, hyperparameters: Mapping[str, Scalar]) -> Configs:
    """The dataclasses of hyperparameters, each distinct set converted once.

    The cache is keyed by `repr`, because 1, 1.0 and True are equal but not all of them are valid values.
    """
    key = MODELS[model], repr(sorted(hyperparameters.items()))
    if key not in _CACHE:
        _CACHE[key] = configs_from_values(model, hyperparameters)
    return _CACHE[key]


def _different(hyperparameters: Iterable[tuple[str, Scalar]], reference: Mapping[str, Any]) -> dict[str, Scalar]:
    return {name: value for name, value in hyperparameters if name not in reference or reference[name] != value}
