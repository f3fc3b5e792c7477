"""Which settings are tried next? Those that optuna's TPE sampler proposes after what the trials before found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from apgcn.errors import MissingPackage
from apgcn.models.registry import MODELS


class Range(NamedTuple):
    """Where a setting is looked for; `log` by orders of magnitude, `whole` in whole numbers."""

    low: float
    high: float
    log: bool = False
    whole: bool = False


SPACE = {
    "penalty": Range(1e-4, 1e-1, log=True),
    "l2": Range(1e-5, 1e-1, log=True),
    "dropout": Range(0.0, 0.8),
    "edge_dropout": Range(0.0, 0.8),
    "skip_dropout": Range(0.0, 0.8),
    "max_steps": Range(2, 20, whole=True),
    "teleport": Range(0.02, 0.5, log=True),
    "stacks": Range(1, 4, whole=True),
    "depth": Range(1, 4, whole=True),
    "ridge": Range(0.01, 100.0, log=True),
}


def searched(model: str) -> list[str]:
    """The settings of a model that can be looked for; a model without weights is not trained, so l2 has no say."""
    known = {field.name for field in fields(MODELS[model])} | ({"l2"} if MODELS[model].has_weights else set())
    return [name for name in SPACE if name in known]


class Search:
    """Proposals that follow from a seed and from what was told of those before: the same search takes the same way."""

    def __init__(self, names: Sequence[str], *, seed: int):
        self._names = names
        self._study = _study(seed)

    def ask(self) -> dict[str, Any]:
        """Settings to try."""
        self.halting_probabilities = self._study.ask()
        return {name: _suggested(self.halting_probabilities, name, SPACE[name]) for name in self._names}

    def tell(self, score: float) -> None:
        """How good those asked last were; more is better."""
        self._study.tell(self.halting_probabilities, score)


def _suggested(trial: Any, name: str, within: Range) -> float | int:
    """A proposal, rounded to what a person would type."""
    if within.whole:
        return trial.suggest_int(name, int(within.low), int(within.high))
    return float(f"{trial.suggest_float(name, within.low, within.high, log=within.log):.3g}")


def imported_optuna() -> Any:
    """The package, if it is installed."""
    try:
        import optuna
    except ImportError as error:
        raise MissingPackage('tuning needs optuna: pip install "apgcn[tune]"') from error
    return optuna


def _study(seed: int) -> Any:
    optuna = imported_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
