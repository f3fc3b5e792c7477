"""The evaluation protocol: run configurations, records of finished runs, and every table and figure of the paper.

Start with `registry`: `ARTIFACTS` has one entry per table and figure, with the runs it needs (`plan`) and the
function that computes it from their records (`build`). In between, `run_plan` (`runner`) trains what a `Store` lacks.

* `config` has `RunConfig`, the keys of its runs, and the `Scope` of models and graphs; `records`, `store` and
  `jsonl_log` have the records and the files that keep them.
* `runner`, `scheduler`, `worker`, `executors` and `ray_executor` (with `ray_cluster` and `ray_tasks`) form run
  batches and train them in processes and on other machines; `progress` reports what a store lacks.
* `table1`, `accuracy_tables` (Tables 2 and 3), `table4`, `table5`, `figure2`, `figure3`, `figure4`, `freezing` and
  `tuning`: one module per artifact, made of the parts in `artifacts`, `aggregate`, `penalty_sweep` and `formatting`;
  `published` has the paper's numbers.
* `speed`: the benchmarks of `apgcn bench`.
"""

from typing import TYPE_CHECKING

from apgcn._utils.lazy_import import lazy_names

if TYPE_CHECKING:
    from apgcn.benchmark.aggregate import Summary
    from apgcn.benchmark.config import RunConfig, RunKey, Scope
    from apgcn.benchmark.records import Record
    from apgcn.benchmark.registry import ARTIFACTS, select_artifacts
    from apgcn.benchmark.runner import run_plan
    from apgcn.benchmark.store import Store

__all__ = ["ARTIFACTS", "Record", "RunConfig", "RunKey", "Scope", "Store", "Summary", "run_plan", "select_artifacts"]

__getattr__, __dir__ = lazy_names(  # reading a store needs no trainer.
    __name__,
    {
        "aggregate": ["Summary"],
        "config": ["RunConfig", "RunKey", "Scope"],
        "records": ["Record"],
        "registry": ["ARTIFACTS", "select_artifacts"],
        "runner": ["run_plan"],
        "store": ["Store"],
    },
)
