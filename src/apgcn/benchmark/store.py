"""Where do records live? In a folder that several processes may fill at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from apgcn._utils.atomic import atomic_write
from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.jsonl_log import Log, locked
from apgcn.benchmark.records import GraphRecord, PlannedBatch, Record, TimingRecord
from apgcn.data.splits import TEST_SEEDS, VALIDATION_SEEDS
from apgcn.errors import BrokenFile, InvalidInput

FILES = ("runs.jsonl", "plan.log", "graphs.log", "timings.log")


class Store:
    """A folder of records.

    runs.jsonl    one line per finished run
    steps/        the K of every node, one archive per pack, written before the pack's records
    graphs.log    one line per counted graph
    timings.log   one line per timed epoch
    plan.log      the packs that were planned, one line each
    locks/        who is writing, and which packs are in training

    Parameters
    ----------
    folder : path
        Made when the first thing is written.
    """

    def __init__(self, folder: Path | str):
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidInput(f"a store must be a folder, but {folder} is a file; name another one.")
        self._runs = Log(self.folder / "runs.jsonl", Record.from_json)
        self._plan = Log(self.folder / "plan.log", PlannedBatch.from_json)
        self._graphs = Log(self.folder / "graphs.log", GraphRecord.from_json)
        self._timings = Log(self.folder / "timings.log", TimingRecord.from_json)

    @classmethod
    def existing(cls, folder: Path | str) -> Store:
        """A store that something was written to."""
        path = Path(folder)
        if not path.is_dir():
            what = "a file" if path.exists() else "not there"
            raise InvalidInput(f"a store must be a folder, but {folder} is {what}.")
        if not _is_store(path):
            below = [str(inner) for inner in sorted(path.iterdir()) if inner.is_dir() and _is_store(inner)]
            hint = f"try {' or '.join(below)}" if below else "apgcn reproduce WHAT --store FOLDER fills one"
            raise InvalidInput(f"{folder} must be a store, but has no records; {hint}.")
        return cls(folder)

    @classmethod
    def to_fill(cls, folder: Path | str) -> Store:
        """A store that is there, or a new one in a place where nothing else is."""
        path = Path(folder)
        if path.is_dir() and not _is_store(path) and any(inner.name != "locks" for inner in path.iterdir()):
            raise InvalidInput(f"a store must be a new or empty folder or a store, but {folder} has other files in it.")
        return cls(folder)

    @property
    def files(self) -> set[Path]:
        """All files that the store consists of, by their full names."""
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

    def keep_graph(self, record: GraphRecord) -> None:
        self._graphs.append([record])

    def keep_timing(self, record: TimingRecord) -> None:
        self._timings.append([record])

    def of(self, run_config: RunConfig, runs: int | None = None) -> list[Record]:
        """The records of a condition: of its first runs, or all there are, in the order of the protocol."""
        records = self.records
        if runs is not None:
            return [records[key.text] for key in run_config.first_runs(runs) if key.text in records]
        found = [record for record in records.values() if record.run_config == run_config]
        return sorted(found, key=lambda record: (record.init, _place(record)))

    def missing(self, keys: Iterable[RunKey]) -> list[RunKey]:
        """todo = plan - store."""
        records = self.records
        return [key for key in keys if key.text not in records]

    def keep(self, pack: PlannedBatch, records: Sequence[Record], steps: np.ndarray) -> None:
        """Append the records of a trained pack that are not there yet, after the steps that they point to.

        A pack that was torn may have been trained again with another rounding: the rows of records that were there
        before stay as they are.

        Parameters
        ----------
        steps : array of shape (runs, nodes)
            K of every node.
        """
        before = self.records
        kept = [row for row, record in enumerate(records) if record.key in before]
        with suppress(BrokenFile):  # an archive that is missing or damaged is made anew
            old = self._steps(self.steps_file(pack), rows=kept) if kept else steps[:0]
            if old.shape[1] != steps.shape[1]:
                raise BrokenFile(
                    f"{self.steps_file(pack)} has the steps of {old.shape[1]} nodes, not {steps.shape[1]}."
                )
            steps = steps.copy()
            steps[kept] = old
        smallest = steps.astype(np.min_scalar_type(int(steps.max())))
        atomic_write(self.folder / self.steps_file(pack), lambda file: np.savez_compressed(file, steps=smallest))
        self._runs.append(records)

    @staticmethod
    def steps_file(pack: PlannedBatch) -> str:
        """Where the steps of a pack go, seen from the store."""
        return f"steps/{pack.key}.npz"

    def mean_steps(self, records: Sequence[Record]) -> np.ndarray:
        """K of every node, averaged over runs: what we take the paper to draw the density of.

        Raises
        ------
        BrokenFile
            If an archive of steps is missing or is not one.
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
                f"{path} must hold the steps of a pack, but cannot be read ({type(error).__name__}); restore it."
            ) from error
        if steps.ndim != 2 or steps.dtype.kind not in "iu" or not all(0 <= row < len(steps) for row in rows):
            raise BrokenFile(f"{path} must have a row of whole numbers for every run of its pack; restore it.")
        return steps[list(rows)]

    @property
    def planned(self) -> list[PlannedBatch]:
        """The packs that were ever planned, the latest last."""
        return list(self._plan.entries().values())

    def plan(self, packs: Iterable[PlannedBatch]) -> None:
        """Write down which runs will train together."""
        self._plan.append(packs, sync_each=False)

    def planning(self) -> FileLock:
        """While this is held nobody else plans."""
        return locked(self.folder / "planning")

    def claim(self, pack: PlannedBatch) -> Claim | None:
        """The right to train a pack; None if another process has it."""
        lock = locked(self.folder / pack.key)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return Claim(lock)

    @property
    def in_training(self) -> list[PlannedBatch]:
        """The packs that some process, perhaps this one, has claimed."""
        found = []
        for pack in self.planned:
            if (self.folder / "locks" / f"{pack.key}.lock").exists():
                with suppress(OSError):  # a store that may only be read
                    claim = self.claim(pack)
                    if claim:
                        claim.give_back()
                    else:
                        found.append(pack)
        return found


class Claim:
    """The right to train a pack, until it is given back or the process that has it ends."""

    def __init__(self, lock: FileLock):
        self._lock = lock

    def give_back(self, *, done: bool = False) -> None:
        """Let others have it; when the records are all there, for good."""
        if done:  # who makes this file anew finds nothing missing
            Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()


def _is_store(folder: Path) -> bool:
    return any((folder / name).exists() for name in FILES)


def _place(record: Record) -> int:
    """Where a record's split stands in the protocol; one that is not of it comes last."""
    seeds = TEST_SEEDS if record.seed_set == "test" else VALIDATION_SEEDS
    return seeds.index(record.split) if record.split in seeds else len(seeds)
