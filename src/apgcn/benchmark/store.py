"""The store: a folder of records, which several processes may extend at the same time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from apgcn._utils.atomic import atomic_write
from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.jsonl_log import JSONLinesLog, file_lock
from apgcn.benchmark.records import GraphRecord, PlannedBatch, Record, TimingRecord
from apgcn.data.splits import SEEDS
from apgcn.errors import BrokenFile, InvalidInput

FILES = ("runs.jsonl", "plan.log", "graphs.log", "timings.log")
FIELDS_OF_0_1 = {"settings", "condition"}  # names that later versions do not use


class Store:
    """A folder of records.

    runs.jsonl    one line per finished run
    steps/        the K of every node, one archive per run batch, written before the records that point to it
    graphs.log    one line per counted graph
    timings.log   one line per timed epoch
    plan.log      the run batches that were planned, one line each
    locks/        locks of the files above, and of the run batches in training

    Parameters
    ----------
    folder : path
        Created by the first write.

    Raises
    ------
    InvalidInput
        If `folder` is a file, or a store with the field names of apgcn 0.1.
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidInput(f"a store must be a folder, but {folder} is a file; name another one.")
        _check_version(self.folder)
        self._runs = JSONLinesLog(self.folder / "runs.jsonl", Record.from_json)
        self._plan = JSONLinesLog(self.folder / "plan.log", PlannedBatch.from_json)
        self._graphs = JSONLinesLog(self.folder / "graphs.log", GraphRecord.from_json)
        self._timings = JSONLinesLog(self.folder / "timings.log", TimingRecord.from_json)

    @classmethod
    def open(cls, folder: Path | str) -> Store:
        """An existing store."""
        path = Path(folder)
        if not path.is_dir():
            state = "a file" if path.exists() else "not there"
            raise InvalidInput(f"a store must be a folder, but {folder} is {state}.")
        if not _is_store(path):
            inner = [str(child) for child in sorted(path.iterdir()) if child.is_dir() and _is_store(child)]
            hint = f"try {' or '.join(inner)}" if inner else "apgcn reproduce WHAT --store FOLDER creates one"
            raise InvalidInput(f"{folder} must be a store, but has no records; {hint}.")
        return cls(folder)

    @classmethod
    def open_or_create(cls, folder: Path | str) -> Store:
        """An existing store, or a new one in a folder that is empty or does not exist."""
        path = Path(folder)
        if path.is_dir() and not _is_store(path) and any(child.name != "locks" for child in path.iterdir()):
            raise InvalidInput(f"a store must be a new or empty folder or a store, but {folder} has other files in it.")
        return cls(folder)

    @property
    def files(self) -> set[Path]:
        """Absolute paths of the files that the store consists of."""
        return {path.resolve() for path in (*(self.folder / name for name in FILES), *self.folder.glob("steps/*.npz"))}

    @property
    def records(self) -> dict[str, Record]:
        """The finished runs by key."""
        return self._runs.entries()

    @property
    def graphs(self) -> dict[str, GraphRecord]:
        """The counted graphs by name."""
        return self._graphs.entries()

    @property
    def timings(self) -> dict[str, TimingRecord]:
        """The timed epochs by key."""
        return self._timings.entries()

    @property
    def planned_batches(self) -> list[PlannedBatch]:
        """The run batches that were ever planned, the latest last."""
        return list(self._plan.entries().values())

    def records_for(self, run_config: RunConfig, runs: int | None = None) -> list[Record]:
        """The records of a run configuration in the order of the protocol: of its first `runs`, or all of them."""
        records = self.records
        if runs is not None:
            return [records[key.text] for key in run_config.first_runs(runs) if key.text in records]
        matching = [record for record in records.values() if record.run_config == run_config]
        return sorted(matching, key=lambda record: (record.init, _split_index(record)))

    def missing(self, keys: Iterable[RunKey]) -> list[RunKey]:
        """The keys without a record."""
        records = self.records
        return [key for key in keys if key.text not in records]

    def add_graph(self, record: GraphRecord) -> None:
        self._graphs.append([record])

    def add_timing(self, record: TimingRecord) -> None:
        self._timings.append([record])

    def add_records(self, batch: PlannedBatch, records: Sequence[Record], steps: np.ndarray) -> None:
        """Append the records of a trained run batch that are new, after the steps that they point to.

        A run batch that was interrupted while its records were written is trained again, perhaps on another device: the
        rows of steps that belong to existing records stay as they are.

        Parameters
        ----------
        steps : array of shape (runs, nodes)
            K of every node.
        """
        existing = self.records
        old_rows = [row for row, record in enumerate(records) if record.key in existing]
        with suppress(BrokenFile):  # an archive that is missing or damaged is written anew
            old_steps = self._steps(self.steps_file(batch), rows=old_rows) if old_rows else steps[:0]
            if old_steps.shape[1] != steps.shape[1]:
                raise BrokenFile(
                    f"{self.steps_file(batch)} has the steps of {old_steps.shape[1]} nodes, not {steps.shape[1]}."
                )
            steps = steps.copy()
            steps[old_rows] = old_steps
        smallest = steps.astype(np.min_scalar_type(int(steps.max())))
        atomic_write(self.folder / self.steps_file(batch), lambda file: np.savez_compressed(file, steps=smallest))
        self._runs.append(records)

    @staticmethod
    def steps_file(batch: PlannedBatch) -> str:
        """Path of the steps of a run batch, relative to the store."""
        return f"steps/{batch.key}.npz"

    def mean_steps(self, records: Sequence[Record]) -> np.ndarray:
        """K of every node, averaged over runs, whose density the paper's figure shows (as we understand it).

        Raises
        ------
        BrokenFile
            If an archive of steps is missing or cannot be read.
        """
        total, count = np.zeros(1), 0
        by_file: dict[str, list[int]] = {}
        for record in records:
            by_file.setdefault(record.steps_file, []).append(record.steps_row)
        for name, rows in by_file.items():
            steps = self._steps(name, rows=rows)
            if count and steps.shape[1] != len(total):
                raise BrokenFile(f"{name} must have the steps of {len(total)} nodes, got {steps.shape[1]}; restore it.")
            total = total + steps.sum(axis=0, dtype=np.float64)
            count += len(rows)
        return total / count

    def _steps(self, name: str, *, rows: Sequence[int]) -> np.ndarray:
        path = self.folder / "steps" / Path(name).name
        try:
            with np.load(path, allow_pickle=False) as archive:
                steps = archive["steps"]
        except Exception as error:  # a damaged archive can fail in a dozen ways
            raise BrokenFile(
                f"{path} must hold the steps of a run batch, but cannot be read ({type(error).__name__}); restore it."
            ) from error
        if steps.ndim != 2 or steps.dtype.kind not in "iu" or not all(0 <= row < len(steps) for row in rows):
            raise BrokenFile(f"{path} must have a row of integers for every run of its batch; restore it.")
        return steps[list(rows)]

    def add_planned(self, batches: Iterable[PlannedBatch]) -> None:
        """Append run batches to the plan."""
        self._plan.append(batches, sync_each=False)

    def planning_lock(self) -> FileLock:
        """The lock under which one process at a time plans run batches."""
        return file_lock(self.folder / "planning")

    def claim(self, batch: PlannedBatch) -> Claim | None:
        """The exclusive right to train a run batch; None if another process has it."""
        lock = file_lock(self.folder / batch.key)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return Claim(lock)

    @property
    def batches_in_training(self) -> list[PlannedBatch]:
        """The run batches that some process, perhaps this one, has claimed."""
        claimed = []
        for batch in self.planned_batches:
            if (self.folder / "locks" / f"{batch.key}.lock").exists():
                with suppress(OSError):  # a read-only store
                    claim = self.claim(batch)
                    if claim:
                        claim.release()
                    else:
                        claimed.append(batch)
        return claimed


class Claim:
    """The exclusive right to train a run batch, until it is released or the process that holds it ends."""

    def __init__(self, lock: FileLock):
        self._lock = lock

    def release(self, *, done: bool = False) -> None:
        """Let other processes claim the run batch; once all its records are stored, remove the lock file, too."""
        if done:  # a process that creates the file anew finds no missing records
            Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()


def _is_store(folder: Path) -> bool:
    return any((folder / name).exists() for name in FILES)


def _check_version(folder: Path) -> None:
    """Refuse a store with the field names of version 0.1, which the first line of each file tells."""
    for name in FILES:
        with suppress(OSError, ValueError), (folder / name).open("rb") as file:
            line = json.loads(file.readline())
            if isinstance(line, dict) and not FIELDS_OF_0_1.isdisjoint(line):
                break
    else:
        return
    raise InvalidInput(f"{folder} was written by apgcn 0.1; run: python scripts/migrate_records {folder}")


def _split_index(record: Record) -> int:
    """Position of a record's split in the protocol; a split that is not part of it comes last."""
    seeds = SEEDS[record.run_config.seed_set]
    return seeds.index(record.split) if record.split in seeds else len(seeds)
