"""Which settings are best? Searched with optuna on the validation seeds; test nodes are not even drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from apgcn.errors import MissingPackage
from apgcn.experiments.keys import Condition, RunKey
from apgcn.experiments.mean import Mean
from apgcn.experiments.store import Store
from apgcn.models.catalogue import MODELS


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


class Trial(NamedTuple):
    """Settings that were tried. Number 0 are those behind the paper's tables."""

    number: int
    condition: Condition
    mean: Mean

    @property
    def score(self) -> float:
        """The mean accuracy on validation nodes, in percent."""
        return self.mean.validation_accuracy or 0.0


Runner = Callable[[list[RunKey], int], None]


def tune(
    store: Store,
    dataset: str,
    model: str,
    *,
    trials: int,
    runs: int,
    run: Runner,
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> list[Trial]:
    """Try the settings behind the paper's tables, then what optuna's TPE sampler proposes; the best comes first.

    The proposals follow from the seed and from what the trials before them found. So a search that was interrupted
    takes the same way again, meets its own records, and goes on where it stopped.

    Parameters
    ----------
    trials : int
        How many, the first settings not counted.
    runs : int
        How many runs on validation splits judge a trial.
    names : sequence of str, optional
        The settings that are looked for; all of `searched`, if none is named.
    run : function
        Makes sure that the store has the records of the keys of a trial, and is told its number; see `fill`.
    """
    names = searched(model) if names is None else names
    study = _study(seed)
    done = [_tried(store, run, Condition.of_paper(dataset, model, purpose="validation"), runs, number=0)]
    for number in range(1, trials + 1):
        proposed = study.ask()
        settings: dict[str, Any] = {name: _suggested(proposed, name, SPACE[name]) for name in names}
        condition = Condition.of_paper(dataset, model, purpose="validation", **settings)
        trial = _tried(store, run, condition, runs, number=number)
        study.tell(proposed, trial.score)
        done.append(trial)
    return sorted(done, key=lambda trial: -trial.score)


def _tried(store: Store, run: Runner, condition: Condition, runs: int, *, number: int) -> Trial:
    run(condition.first_runs(runs), number)
    return Trial(number, condition, Mean.of(store.of(condition, runs)))


def _suggested(trial: Any, name: str, within: Range) -> float | int:
    """A proposal, rounded to what a person would type."""
    if within.whole:
        return trial.suggest_int(name, int(within.low), int(within.high))
    return float(f"{trial.suggest_float(name, within.low, within.high, log=within.log):.3g}")


def _study(seed: int) -> Any:
    try:
        import optuna
    except ImportError as error:
        raise MissingPackage('tuning needs optuna: pip install "apgcn[tune]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
