"""Table 2: accuracy on citation and co-author graphs."""

from __future__ import annotations

from apgcn.benchmark import accuracy_tables
from apgcn.benchmark.artifacts import Artifact
from apgcn.benchmark.config import Scope
from apgcn.benchmark.store import Store

plan = accuracy_tables.plan


def content(store: Store, scope: Scope) -> Artifact:
    """Ours beside the paper's."""
    return accuracy_tables.content(store, scope, name="table2", title="accuracy on citation and co-author graphs")
