"""Table 2: accuracy on citation and co-author graphs."""

from __future__ import annotations

from apgcn.experiments import accuracy
from apgcn.experiments.exhibit import Exhibit
from apgcn.experiments.scope import Scope
from apgcn.experiments.store import Store

plan = accuracy.plan


def content(store: Store, scope: Scope) -> Exhibit:
    """Ours beside the paper's."""
    return accuracy.content(store, scope, name="table2", title="accuracy on citation and co-author graphs")
