"""Which run is it, its settings included? A plan is a list of these keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from apgcn._utils.validation import check_int, to_python
from apgcn.data.registry import DATASETS
from apgcn.data.splits import TEST_SEEDS, VALIDATION_SEEDS
from apgcn.models.presets import presets_for
from apgcn.models.registry import MODELS
from apgcn.training.config import TrainingConfig, preset_config, split_config
from apgcn.training.runs import MAX_RUNS

PER_CLASS = 20  # training nodes a class, unless an experiment varies it

Purpose = Literal["test", "validation"]
Scalar = int | float | str  # a truth is a number


@dataclass(frozen=True)
class RunConfig:
    """What is trained on what: all that the runs of one mean have in common.

    Parameters
    ----------
    dataset, model : str
    settings : pairs of name and value, sorted
        All settings, of the model and of its training.
    per_class : int
        Training nodes a class.
    purpose : "test" or "validation"
        Which seeds draw the splits. In those for validation there are no test nodes.
    """

    dataset: str
    model: str
    hyperparameters: tuple[tuple[str, Scalar], ...]
    train_per_class: int = PER_CLASS
    seed_set: Purpose = "test"

    @classmethod
    def of(
        cls,
        dataset: str,
        model: str,
        hyperparameters: Mapping[str, Scalar],
        *,
        train_per_class: int = PER_CLASS,
        seed_set: Purpose = "test",
    ) -> RunConfig:
        """Settings by name; what is not named has its default, where the model is known."""
        if model in MODELS:
            hyperparameters = as_dict(*split_config(model, hyperparameters))
        return cls(dataset, model, tuple(sorted(hyperparameters.items())), train_per_class, seed_set)

    @classmethod
    def from_preset(
        cls,
        dataset: str,
        model: str,
        *,
        preset: str | None = None,
        train_per_class: int = PER_CLASS,
        seed_set: Purpose = "test",
        **changes: Scalar,
    ) -> RunConfig:
        """The settings behind the paper's tables for a graph, or those of a kind, with changes by name."""
        hyperparameters = as_dict(*preset_config(dataset, model=model, preset=preset, **changes))
        return cls.of(dataset, model, hyperparameters, train_per_class=train_per_class, seed_set=seed_set)

    @property
    def chosen(self) -> dict[str, Scalar]:
        """The settings that are not a default of the model or its training."""
        usual = defaults(self.model)
        return {name: value for name, value in self.hyperparameters if usual.get(name, _NOTHING) != value}

    @property
    def preset(self) -> str:
        """Which kind of settings these are: "paper", "published" or "tuned"; "" for settings that nobody gave."""
        if self.model not in MODELS or self.dataset not in DATASETS:
            return ""
        for preset in presets_for(MODELS[self.model], self.dataset):
            if self.hyperparameters == RunConfig.from_preset(self.dataset, self.model, preset=preset).hyperparameters:
                return preset
        return ""

    @property
    def changes(self) -> dict[str, Scalar]:
        """The settings that are not those behind the paper's tables; all of them where graph or model are unknown."""
        if self.model not in MODELS or self.dataset not in DATASETS:
            return dict(self.hyperparameters)
        usual = dict(RunConfig.from_preset(self.dataset, self.model).hyperparameters)
        return {name: value for name, value in self.hyperparameters if usual.get(name, _NOTHING) != value}

    @property
    def text(self) -> str:
        """As it begins the key of a run.

        Defaults are not spelled out: so a setting that a later version adds does not change the keys of old records.
        """
        chosen = ",".join(f"{name}={json.dumps(value)}" for name, value in self.chosen.items()) or "defaults"
        return f"{self.dataset}/{self.model}/{chosen}/train_per_class={self.train_per_class}"

    def first_runs(self, count: int) -> list[RunKey]:
        """The first runs of the protocol: every split with one initialisation, then with the next.

        A model without initial weights has one run per split, and no more.
        """
        check_int("runs", count, maximum=MAX_RUNS)
        seeds = TEST_SEEDS if self.seed_set == "test" else VALIDATION_SEEDS
        if self.model in MODELS and not MODELS[self.model].has_weights:
            count = min(count, len(seeds))
        return [RunKey(self, seeds[number % len(seeds)], number // len(seeds)) for number in range(count)]


@dataclass(frozen=True)
class RunKey:
    """One training.

    >>> RunConfig.from_preset("citeseer", "apgcn").first_runs(1)[0].text
    'citeseer/apgcn/penalty=0.001/train_per_class=20/test=2144199730/init=0'
    """

    run_config: RunConfig
    split: int
    init: int

    @property
    def text(self) -> str:
        return f"{self.run_config.text}/{self.run_config.seed_set}={self.split}/init={self.init}"


def defaults(model: str) -> dict[str, Any]:
    """What the settings of a model and its training are when nobody chooses; nothing for an unknown model."""
    if model not in MODELS:
        return {}
    return {field.name: field.default for preset in (MODELS[model], TrainingConfig) for field in fields(preset)}


def as_dict(*hyperparameters: Any) -> dict[str, Scalar]:
    """The settings of several dataclasses by name, as JSON has them."""
    return {name: to_python(value) for one in hyperparameters if is_dataclass(one) for name, value in vars(one).items()}


def group_by_config(keys: Iterable[RunKey]) -> dict[RunConfig, list[RunKey]]:
    """The keys of each condition, in their order, each once."""
    groups: dict[RunConfig, dict[RunKey, None]] = {}
    for key in keys:
        groups.setdefault(key.run_config, {})[key] = None
    return {run_config: list(members) for run_config, members in groups.items()}


_NOTHING = object()


PROTOCOL = 100  # runs: 20 splits x 5 initialisations


@dataclass(frozen=True)
class Scope:
    """Which models on which graphs, and how many runs of each; without a number, whatever there is.

    `preset` says which settings, see `models.given`; none of them, those behind the paper's tables.
    """

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    runs: int | None = PROTOCOL
    preset: str | None = None

    def takes(self, dataset: str, model: str) -> bool:
        """Whether we have the model, with settings of this kind for the graph."""
        return model in MODELS and (self.preset is None or self.preset in presets_for(MODELS[model], dataset))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Graph by graph, the models that can be trained on it."""
        for dataset in self.datasets:
            yield from ((dataset, model) for model in self.models if self.takes(dataset, model))

    def run_config(self, dataset: str, model: str, **changes: Any) -> RunConfig:
        """A model on a graph, with settings of this kind."""
        return RunConfig.from_preset(dataset, model, preset=self.preset, **changes)
