"""What is in a report? Every table and figure of the paper, what tuning found, and all there is."""

from __future__ import annotations

from apgcn.experiments import trials
from apgcn.experiments.catalogue import everything
from apgcn.experiments.exhibit import Exhibit
from apgcn.experiments.store import Store
from apgcn.report.overview import overview


def contents(store: Store) -> list[Exhibit]:
    """The exhibits in the order of the page; those of the paper are there even if nothing was run for them."""
    exhibits = [experiment.content(store, scope) for experiment, scope in everything(store)]
    further = [trials.content(store), overview(store)]
    return [*exhibits, *(exhibit for exhibit in further if exhibit.recorded)]
