"""Which settings are best? Searched with optuna on the validation seeds; test nodes are not even drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.store import Store
from apgcn.training.search_space import Search, searched


class Trial(NamedTuple):
    """Settings that were tried. Number 0 are those behind the paper's tables."""

    number: int
    run_config: RunConfig
    mean: Summary

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
    search = Search(names, seed=seed)
    done = [_tried(store, run, RunConfig.from_preset(dataset, model, seed_set="validation"), runs, number=0)]
    for number in range(1, trials + 1):
        run_config = RunConfig.from_preset(dataset, model, seed_set="validation", **search.ask())
        trial = _tried(store, run, run_config, runs, number=number)
        search.tell(trial.score)
        done.append(trial)
    return sorted(done, key=lambda trial: -trial.score)


def _tried(store: Store, run: Runner, run_config: RunConfig, runs: int, *, number: int) -> Trial:
    run(run_config.first_runs(runs), number)
    return Trial(number, run_config, Summary.of(store.of(run_config, runs)))
