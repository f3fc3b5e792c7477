"""Whatever happens to a reproduction, started again it ends with the records of an undisturbed one."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import TESTS
from helpers.fake_records import results
from helpers.run_small_plan import small_plan

from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.executors import ProcessExecutor, SerialExecutor
from apgcn.benchmark.graph_cache import from_file
from apgcn.benchmark.records import PlannedBatch, Record
from apgcn.benchmark.runner import _claimed, fill
from apgcn.benchmark.scheduler import packs_for, replaced
from apgcn.benchmark.store import Store
from apgcn.benchmark.worker import run_of, train_planned
from apgcn.errors import ApgcnError, InvalidInput, MissingFile, WorkerDied
from apgcn.report.sections import overview

SCRIPT = TESTS / "helpers" / "run_small_plan.py"


def start(folder, workers=1, name="test"):
    """A process that fills a store, after its imports; its records say that they come from `name`."""
    command = [sys.executable, SCRIPT, str(folder), str(workers), name]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.stdout.close()
    if name == "test":
        go(process)
    return process


def go(process):
    """Let it begin."""
    process.stdin.close()


def no_line_is_there_twice(folder) -> bool:
    keys = [json.loads(line)["key"] for line in (folder / "runs.jsonl").read_text().splitlines()]
    return len(keys) == len(set(keys))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Store:
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder)
    assert process.wait(120) == 0
    return Store(folder)


def test_ten_kills_change_nothing(undisturbed, tmp_path):
    """At random moments: before the first record, between two, or a while after some more are there."""
    moments = random.Random(7)
    lines = tmp_path / "runs.jsonl"
    left = []
    for _ in range(10):
        process = start(tmp_path, workers=moments.choice((1, 1, 2)))
        before = _size(lines)
        if moments.random() < 0.6:
            _until(lambda: _size(lines) > before or process.poll() is not None)  # noqa: B023
        time.sleep(moments.uniform(0.0, 0.2))
        process.kill()
        process.wait()
        left.append(60 - len(Store(tmp_path).records))
    assert 0 < left[-1] < left[0], f"the kills must fall into the work, but there were {left} runs left"
    assert start(tmp_path).wait(120) == 0
    assert results(tmp_path) == results(undisturbed)
    assert overview(Store(tmp_path)).table.cells == overview(undisturbed).table.cells
    assert no_line_is_there_twice(tmp_path)
    for record in Store(tmp_path).records.values():
        assert Store(tmp_path).mean_steps([record]).mean() == pytest.approx(record.steps_mean)


def _size(path):
    return path.stat().st_size if path.exists() else 0


def test_a_pack_that_was_torn_is_trained_again_as_it_was(undisturbed, tmp_path):
    """Its writer was killed in the middle of its second record."""
    whole = undisturbed.folder
    lines = (whole / "runs.jsonl").read_bytes().splitlines(keepends=True)
    tmp_path.joinpath("runs.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:200])
    tmp_path.joinpath("plan.log").write_bytes((whole / "plan.log").read_bytes())
    before = [record.key for record in Store(tmp_path).records.values()]
    assert start(tmp_path).wait(120) == 0
    assert results(tmp_path) == results(undisturbed)
    assert tmp_path.joinpath("runs.jsonl").read_bytes().startswith(b"".join(lines[:4]))
    assert len(before) == 4
    assert all(record.batch_runs == 3 for record in Store(tmp_path).records.values())


def test_two_processes_fill_one_store_together(undisturbed, tmp_path):
    processes = [start(tmp_path, name="one"), start(tmp_path, name="other")]
    for process in processes:  # both are ready: they begin together
        go(process)
    assert [process.wait(120) for process in processes] == [0, 0]
    found = results(tmp_path)
    commands = [line.pop("command") for line in found.values()]
    assert min(commands.count("one"), commands.count("other")) >= 6  # of 60: two packs at least
    expected = results(undisturbed)
    for line in expected.values():
        del line["command"]
    assert found == expected
    assert no_line_is_there_twice(tmp_path)


def test_several_workers_find_what_one_finds(undisturbed, tmp_path):
    assert start(tmp_path, workers=2).wait(120) == 0
    assert results(tmp_path) == results(undisturbed)


def test_workers_end_with_a_parent_that_is_killed():
    """While they work, which is when nothing else would tell them."""
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc")
    code = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "from run_small_plan import sleeping\n"
        "from apgcn.benchmark.executors import Processes\n"
        "list(Processes(2).run(sleeping, [1, 2], print))"
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    _until(lambda: len(_children(process.pid)) >= 3)  # two workers, and Python's own helper
    workers = _children(process.pid)
    time.sleep(3)  # they have begun
    process.kill()
    process.wait()
    _until(lambda: not any(_alive(worker) for worker in workers))


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _until(run_config, seconds=30):
    end = time.monotonic() + seconds
    while not run_config():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def test_what_another_process_trains_is_waited_for_and_taken_over_when_it_dies(tmp_path):
    """A claim is held for a while; then the holder is gone without a record."""
    store = Store(tmp_path)
    plan = small_plan(2)
    (pack,) = packs_for(store, plan, device="cpu", most=lambda run_config: 3)
    claim = Store(tmp_path).claim(pack)
    assert store.claim(pack) is None

    class Releasing:
        waited = 0

        def waiting(self):
            self.waited += 1
            if self.waited == 2:
                claim.give_back()

        def planned(self, packs): ...
        def progress(self, pack, share): ...
        def finished(self, pack): ...

    watch = Releasing()
    fill(store, plan, watch=watch)
    assert watch.waited == 2
    assert len(store.records) == 2


def test_a_pack_that_was_planned_anew_is_left_to_the_later_plan(tmp_path):
    """A second process came with less memory and divided what the first had not begun."""
    store, plan = Store(tmp_path), small_plan(4)
    (large,) = packs_for(store, plan, device="cpu", most=lambda run_config: 4)
    assert not replaced(store, large)
    small = packs_for(Store(tmp_path), plan, device="cpu", most=lambda run_config: 2)
    assert replaced(store, large)
    assert not any(replaced(store, pack) for pack in small)
    assert list(_claimed(store, [large], {})) == []
    fill(store, plan)
    assert {record.batch_runs for record in store.records.values()} == {2}


def test_a_begun_pack_stays_as_it_is_even_if_it_is_too_large_now(tmp_path):
    store, plan = Store(tmp_path), small_plan(3)
    (pack,) = packs_for(store, plan, device="cpu", most=lambda run_config: 3)
    begun = train_planned(pack, lambda share: None, device="cpu", command="")
    store.keep(pack, begun.records[:1], begun.steps)
    assert packs_for(store, plan, device="cpu", most=lambda run_config: 1) == [pack]


def test_steps_of_a_pack_that_was_trained_again_stay_those_of_their_records(tmp_path):
    """On a GPU the second training may round differently: old records keep their rows, new ones bring theirs."""
    store, plan = Store(tmp_path), small_plan(3)
    pack = PlannedBatch.of(plan, "cuda")
    first = train_planned(pack, lambda share: None, device="cpu", command="")
    again = np.full_like(first.steps, 7)
    store.keep(pack, first.records[:2], first.steps)
    store.keep(pack, first.records, again)
    for row, expected in enumerate((first.steps[0], first.steps[1], again[2])):
        assert np.array_equal(store.mean_steps([first.records[row]]), expected)


def test_nothing_is_left_to_do_when_it_is_done(undisturbed):
    class Refusing(SerialExecutor):
        def run(self, function, items, watch):
            raise AssertionError("there is nothing to run")

    fill(undisturbed, small_plan(), executor=Refusing())


def test_a_larger_plan_keeps_what_is_there_and_trains_the_rest(tmp_path):
    store = Store(tmp_path)
    fill(store, small_plan(4))
    first = dict(store.records)
    fill(store, small_plan(7))
    assert len(store.records) == 7
    assert all(store.records[key] == record for key, record in first.items())
    assert [len(pack.runs) for pack in store.planned] == [4, 3]  # not 8: the four are done


def test_packs_planned_for_another_device_are_planned_anew_unless_begun(tmp_path):
    store, plan = Store(tmp_path), small_plan(6)
    before = packs_for(store, plan, device="cpu", most=lambda run_config: 3)
    assert [len(pack.runs) for pack in before] == [3, 3]
    begun = train_planned(before[0], lambda share: None, device="cpu", command="")
    store.keep(before[0], begun.records[:1], begun.steps)
    after = packs_for(store, plan, device="cuda", most=lambda run_config: 100)
    assert after[0] == before[0]
    assert (after[1].device, after[1].runs) == ("cuda", before[1].runs)
    assert packs_for(store, plan, device="cuda", most=lambda run_config: 100) == after


@pytest.mark.parametrize("written", range(6))
def test_a_kill_while_packs_are_planned_does_not_change_them(tmp_path, written):
    plan = small_plan(45)
    whole = packs_for(Store(tmp_path / "whole"), plan, device="cpu", most=lambda run_config: 8)
    torn = Store(tmp_path / "torn")
    torn.plan(whole[:written])
    assert packs_for(torn, plan, device="cpu", most=lambda run_config: 8) == whole


def test_packs_that_no_longer_fit_are_divided(tmp_path):
    store, plan = Store(tmp_path), small_plan(6)
    packs_for(store, plan, device="cpu", most=lambda run_config: 6)
    assert [len(pack.runs) for pack in packs_for(store, plan, device="cpu", most=lambda run_config: 2)] == [2, 2, 2]


def test_a_pack_that_somebody_trains_is_left_as_it_is(tmp_path):
    store, plan = Store(tmp_path), small_plan(6)
    (pack,) = packs_for(store, plan, device="cpu", most=lambda run_config: 6)
    claim = Store(tmp_path).claim(pack)
    assert packs_for(store, plan, device="cuda", most=lambda run_config: 2) == [pack]
    claim.give_back()


def test_a_record_says_what_the_training_found(tmp_path):
    """The same pack, trained without any of the machinery of plans and stores."""
    from apgcn import clean, load, preset_config, split_for_test, train
    from apgcn.training.runs import Run

    plan = small_plan(3)
    store = Store(tmp_path)
    fill(store, plan, command="apgcn reproduce something")
    graph = clean(load("cora"))
    model, training = preset_config("cora", hidden_channels=8, max_epochs=6)
    runs = [Run(split_for_test(graph.labels, key.split), key.init, "cora") for key in plan]
    for key, result in zip(plan, train(graph, runs, model, training), strict=True):
        record = store.records[key.text]
        assert record.test_accuracy == result.test_accuracy
        assert record.train_accuracy == result.accuracy(result.run.split.train)
        assert record.stopping_accuracy == result.stopping_accuracy
        assert record.validation_accuracy == result.validation_accuracy
        assert record.steps_mean == pytest.approx(result.steps.mean())
        assert record.steps_histogram == tuple(np.bincount(result.steps, minlength=11)[1:])
        assert (record.epochs, record.best_epoch) == (result.epochs, result.best_epoch)
        assert np.array_equal(store.mean_steps([record]), result.steps)
        assert record.hyperparameters == {**vars(model), **vars(training)}
        assert record.command == "apgcn reproduce something"
        assert set(record.versions) - {"numba", "triton"} == {"apgcn", "python", "torch", "numpy", "scipy"}
    seconds = [store.records[key.text].seconds for key in plan]
    assert min(seconds) > 0


def test_validation_runs_have_no_test_accuracy(tmp_path):
    run_config = RunConfig.from_preset("cora", "apgcn", hidden_channels=4, max_epochs=2, seed_set="validation")
    store = Store(tmp_path)
    fill(store, run_config.first_runs(1))
    (record,) = store.records.values()
    assert record.test_accuracy is None
    assert 0 < record.validation_accuracy < 1
    assert "/validation=2413340114/" in record.key


def test_labels_a_class_change_the_training_set_and_the_key(tmp_path):
    store = Store(tmp_path)
    for labels in (5, 20):
        run_config = RunConfig.from_preset("cora", "apgcn", hidden_channels=4, max_epochs=2, train_per_class=labels)
        fill(store, run_config.first_runs(1))
        assert len(run_of(run_config.first_runs(1)[0]).split.train) == 7 * labels
    few, usual = store.records.values()
    assert few.key.replace("labels=5", "labels=20") == usual.key


# --- executors ---


def doubled(item, report):
    report(0.5)
    return os.getpid(), 2 * item


def mistaken(item, report):
    raise ApgcnError("penalty must be >= 0, got -1.")


def failing(item, report):
    raise ZeroDivisionError("in the middle of work")


def dying(item, report):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(2)], ids=["in process", "processes"])
def test_an_executor_does_every_item_once(executor):
    heard = []
    outcomes = dict(executor.run(doubled, range(7), lambda item, share: heard.append((item, share))))
    assert {item: value for item, (_, value) in outcomes.items()} == {item: 2 * item for item in range(7)}
    pids = {pid for pid, _ in outcomes.values()}
    assert len(pids) <= executor.at_once
    assert (os.getpid() in pids) == isinstance(executor, SerialExecutor)
    assert (0, 0.5) in heard


def test_an_item_is_taken_only_when_it_can_begin():
    taken = []

    def items():
        for item in range(5):
            taken.append(item)
            yield item

    outcomes = ProcessExecutor(2).run(doubled, items(), lambda item, share: None)
    next(outcomes)
    assert len(taken) == 2
    outcomes.close()


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (mistaken, ApgcnError, "^penalty must be >= 0, got -1.$"),
        (failing, RuntimeError, "in the middle of work"),
        (dying, WorkerDied, "status -9.*enough memory"),
    ],
)
def test_what_happens_in_a_worker_is_said_here(function, error, words):
    with pytest.raises(error, match=words):
        list(ProcessExecutor(1).run(function, [1], lambda item, share: None))


def dying_afterwards(item, report):
    threading.Timer(0.2, os._exit, [9]).start()
    return item


def test_a_worker_that_dies_between_two_items_is_said_too():
    outcomes = ProcessExecutor(1).run(dying_afterwards, [1, 2], lambda item, share: None)
    assert next(outcomes) == (1, 1)
    time.sleep(1)
    with pytest.raises(WorkerDied, match="status 9"):
        list(outcomes)


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(2)], ids=["in process", "processes"])
def test_an_interruption_ends_the_workers_and_gives_claims_back(tmp_path, executor):
    class Interrupting:
        def planned(self, packs): ...
        def progress(self, pack, share):
            raise KeyboardInterrupt

        def finished(self, pack): ...
        def waiting(self): ...

    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fill(store, small_plan(2), watch=Interrupting(), executor=executor)
    assert multiprocessing.active_children() == []
    assert store.in_training == []
    (pack,) = store.planned
    claim = store.claim(pack)
    assert claim is not None
    assert [one.key for one in Store(tmp_path).in_training] == [pack.key]
    claim.give_back()


def test_a_store_that_may_only_be_read_can_be_looked_at(tmp_path, monkeypatch):
    store = Store(tmp_path)
    fill(store, small_plan(1))
    pack = PlannedBatch.of(small_plan(1), "cpu")
    (tmp_path / "locks" / f"{pack.key}.lock").touch()

    def refused(self, pack):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Store, "claim", refused)
    monkeypatch.setattr(Store, "planning", refused)
    assert store.in_training == []
    fill(store, small_plan(1))  # nothing is missing, nothing is written


def test_a_graph_that_cannot_be_had_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("APGCN_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("apgcn.data.download._download", _not_there)
    from_file.cache_clear()
    with pytest.raises(MissingFile):
        fill(Store(tmp_path / "store"), RunConfig.from_preset("pubmed", "apgcn").first_runs(1))
    assert not (tmp_path / "store").exists()


def _not_there(dataset, folder):
    raise MissingFile("pubmed.npz is not there.")


def full(item, report):
    raise OSError(28, "No space left on device")


def out_of_memory(item, report):
    raise MemoryError("Unable to allocate 9 TiB")


def test_what_goes_wrong_in_a_worker_is_told_apart():
    with pytest.raises(ApgcnError, match="No space left"):
        list(ProcessExecutor(1).run(full, [1], lambda item, share: None))
    with pytest.raises(RuntimeError, match="MemoryError"):
        list(ProcessExecutor(1).run(out_of_memory, [1], lambda item, share: None))


@pytest.mark.parametrize(
    "change",
    [
        {"device": 5},
        {"device": "tpu"},
        {"runs": []},
        {"runs": [[1, 2, 3]]},
        {"runs": [[1.5, 0]]},
        {"runs": [[-1, 0]]},
        {"run_config": None},
        {"run_config": {}},
        {"key": "another"},
    ],
)
def test_a_planned_pack_that_was_edited_is_refused(change):
    line = json.loads(json.dumps(PlannedBatch.of(small_plan(3), "cpu").line))
    with pytest.raises(InvalidInput):
        PlannedBatch.of_line({**line, **change})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("test_accuracy", 1.5),
        ("test_accuracy", -5),
        ("test_accuracy", "0.5"),
        ("test_accuracy", True),
        ("steps_mean", float("nan")),
        ("steps_mean", 10**400),
        ("steps_mean", None),
        ("steps_histogram", []),
        ("steps_histogram", [0, 0]),
        ("steps_histogram", ["1"]),
        ("steps_histogram", [-1, 2]),
        ("steps_row", -1),
        ("epochs", 10**400),
        ("seconds", float("inf")),
        ("train_per_class", "20"),
        ("seed_set", "both"),
        ("dataset", None),
        ("command", "\ud800"),
        ("hyperparameters", {"hidden_channels": [1]}),
        ("hyperparameters", []),
        ("versions", {"torch": 2}),
        ("init", 1),
        ("key", "another"),
    ],
)
def test_a_record_with_a_value_that_cannot_be_is_refused(undisturbed, field, value):
    line = json.loads(json.dumps(next(iter(undisturbed.records.values())).line))
    with pytest.raises(InvalidInput, match=f"{field}|key must be"):
        Record.of_line({**line, field: value})
    del line[field]
    with pytest.raises(InvalidInput, match=f"{field} must be there"):
        Record.of_line(line)


def test_a_planned_pack_survives_being_written():
    pack = PlannedBatch.of(small_plan(3), "cpu")
    assert PlannedBatch.of_line(json.loads(json.dumps(pack.line))) == pack


def test_a_record_survives_being_written(undisturbed):
    for record in undisturbed.records.values():
        assert Record.of_line(json.loads(json.dumps(record.line))) == record
