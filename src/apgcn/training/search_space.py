"""Hyperparameter search: the ranges of hyperparameters, and the loop over trials with optuna's TPE sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, Protocol, TypeVar

from apgcn.errors import MissingPackage
from apgcn.models.registry import MODELS
from apgcn.training.config import TrainingConfig


class SearchRange(NamedTuple):
    """The range of a hyperparameter; `log` samples its logarithm uniformly."""

    low: float
    high: float
    log: bool = False
    integer: bool = False


SEARCH_SPACE = {
    "penalty": SearchRange(1e-4, 1e-1, log=True),
    "l2": SearchRange(1e-5, 1e-1, log=True),
    "dropout": SearchRange(0.0, 0.8),
    "edge_dropout": SearchRange(0.0, 0.8),
    "skip_dropout": SearchRange(0.0, 0.8),
    "max_steps": SearchRange(2, 20, integer=True),
    "teleport": SearchRange(0.02, 0.5, log=True),
    "stacks": SearchRange(1, 4, integer=True),
    "depth": SearchRange(1, 4, integer=True),
    "ridge": SearchRange(0.01, 100.0, log=True),
}


NAMED_SEARCH_SPACE = {  # searched only where they are named: the paper has none of them, and some take longer
    "hidden_channels": SearchRange(16, 128, integer=True),
    "min_steps": SearchRange(0, 2, integer=True),
    "z0_dropout": SearchRange(0.0, 0.8),
    "update_dropout": SearchRange(0.0, 0.8),
    "consistency": SearchRange(0.1, 2.0, log=True),
    "consistency_passes": SearchRange(2, 4, integer=True),
    "temperature": SearchRange(0.2, 1.0),
    "confidence": SearchRange(0.0, 0.8),
}


def searchable_hyperparameters(model: str, *, named: bool = False) -> list[str]:
    """The hyperparameters of a model and of its training that have a search range.

    With `named`, those too that are searched only where the user names them: `NAMED_SEARCH_SPACE`, and `teleport` for a
    model whose steps add nothing of z^0 by default.
    """
    defaults = {field.name: field.default for field in fields(MODELS[model])}
    if MODELS[model].has_weights:
        defaults |= {field.name: field.default for field in fields(TrainingConfig)}
    if named:
        return [name for name in SEARCH_SPACE | NAMED_SEARCH_SPACE if name in defaults]
    return [name for name in SEARCH_SPACE if name in defaults and (name, defaults[name]) != ("teleport", 0)]


class ScoredTrial(Protocol):
    """A trial with its score; larger is better."""

    @property
    def score(self) -> float: ...


Trial = TypeVar("Trial", bound=ScoredTrial)


def search(
    names: Sequence[str], run_trial: Callable[[int, dict[str, Any]], Trial], *, num_trials: int, seed: int
) -> list[Trial]:
    """Run trial 0 with no proposal, then `num_trials` proposals of optuna's TPE sampler; the best trial comes first.

    The proposals follow from the seed and the scores of the trials before, so a repeated search repeats them.

    Parameters
    ----------
    names : sequence of str
        Hyperparameters to search; see `searchable_hyperparameters`.
    run_trial : function
        `run_trial(number, proposal)` trains with the proposed values and returns a trial with its `score`.
    num_trials : int
        Number of proposals.
    seed : int
    """
    study, ranges = _create_study(seed), SEARCH_SPACE | NAMED_SEARCH_SPACE
    finished = [run_trial(0, {})]
    for number in range(1, num_trials + 1):
        proposal = study.ask()
        trial = run_trial(number, {name: _suggest(proposal, name, ranges[name]) for name in names})
        study.tell(proposal, trial.score)
        finished.append(trial)
    return sorted(finished, key=lambda trial: -trial.score)


def _suggest(proposal: Any, name: str, bounds: SearchRange) -> float | int:
    """A value of the range, rounded to three digits."""
    if bounds.integer:
        return proposal.suggest_int(name, int(bounds.low), int(bounds.high))
    return float(f"{proposal.suggest_float(name, bounds.low, bounds.high, log=bounds.log):.3g}")


def import_optuna() -> Any:
    """Import optuna, or raise `MissingPackage` with the command that installs it."""
    try:
        import optuna
    except ImportError as error:
        raise MissingPackage('tuning needs optuna: pip install "apgcn[tune]"') from error
    return optuna


def _create_study(seed: int) -> Any:
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
