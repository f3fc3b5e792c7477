"""Run a small plan in a process of its own: python tests/helpers/run_small_plan.py STORE WORKERS COMMAND RUNS."""

import sys
import time
from pathlib import Path

from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.executors import ProcessExecutor, SerialExecutor
from apgcn.benchmark.runner import run_plan
from apgcn.benchmark.store import Store
from apgcn.benchmark.worker import cleaned_graph
from apgcn.training import batching


def small_plan(runs: int = 30) -> list[RunKey]:
    """Keys of runs of a few epochs."""
    return RunConfig.from_preset("cora", "apgcn", hidden_channels=8, max_epochs=6).first_runs(runs)


def sleep_forever(item, report):
    """A task that writes a file with the name of its item, and does not end."""
    Path(item).touch()
    time.sleep(600)


if __name__ == "__main__":
    batching.MAX_CPU_BATCH = 3
    folder, workers, command, runs = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    cleaned_graph("cora")
    print("ready", flush=True)
    sys.stdin.read()  # until the test closes it
    run_plan(
        Store(folder),
        small_plan(runs),
        executor=ProcessExecutor(workers) if workers > 1 else SerialExecutor(),
        command=command,
    )
