"""Plans, executors and records: a plan that was interrupted, run again, ends with the records of an undisturbed one."""

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import TESTS
from helpers.fake_records import fake_record, results_without_times
from helpers.run_small_plan import small_plan

from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.executors import ProcessExecutor, SerialExecutor
from apgcn.benchmark.records import GraphRecord, PlannedBatch, Record
from apgcn.benchmark.runner import _claim_each, run_plan
from apgcn.benchmark.scheduler import is_superseded, plan_batches
from apgcn.benchmark.store import Store
from apgcn.benchmark.worker import load_cleaned, run_from_key, train_planned_batch
from apgcn.data import published_splits
from apgcn.errors import ApgcnError, BrokenFile, InvalidInput, MissingFile, WorkerDied
from apgcn.report.sections import overview

SCRIPT = TESTS / "helpers" / "run_small_plan.py"


def start(folder, workers=1, name="test", runs=30):
    """Start a process that runs the small plan; `name` is the command in its records. It waits before it begins."""
    command = [sys.executable, SCRIPT, str(folder), str(workers), name, str(runs)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.stdout.close()
    if name == "test":
        go(process)
    return process


def go(process):
    """Let the process begin."""
    process.stdin.close()


def has_unique_keys(folder) -> bool:
    keys = [json.loads(line)["key"] for line in (folder / "runs.jsonl").read_text().splitlines()]
    return len(keys) == len(set(keys))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Store:
    folder = tmp_path_factory.mktemp("undisturbed")
    process = start(folder)
    assert process.wait(120) == 0
    return Store(folder)


@pytest.mark.slow
def test_records_are_the_same_after_ten_kills(tmp_path):
    """The kills come at random times: before the first record, between two, or a while after some."""
    runs = 120  # several times as many as ten processes finish until they are killed
    moments = random.Random(7)
    lines = tmp_path / "runs.jsonl"
    left = []
    for _ in range(10):
        process = start(tmp_path, workers=moments.choice((1, 1, 2)), runs=runs)
        before = _size(lines)
        if moments.random() < 0.6:
            _until(lambda: _size(lines) > before or process.poll() is not None)  # noqa: B023
        time.sleep(moments.uniform(0.0, 0.2))
        process.kill()
        process.wait()
        left.append(runs - len(Store(tmp_path).records))
    assert 0 < left[-1] < left[0], f"the kills must come while runs train, but there were {left} runs left"
    undisturbed = tmp_path / "undisturbed"
    for folder in (tmp_path, undisturbed):
        assert start(folder, runs=runs).wait(120) == 0
    assert results_without_times(tmp_path) == results_without_times(undisturbed)
    assert overview(Store(tmp_path)).table.cells == overview(Store(undisturbed)).table.cells
    assert has_unique_keys(tmp_path)
    for record in Store(tmp_path).records.values():
        assert Store(tmp_path).mean_steps([record]).mean() == pytest.approx(record.steps_mean)


def _size(path):
    return path.stat().st_size if path.exists() else 0


def test_interrupted_batch_is_trained_again_with_the_same_runs(undisturbed, tmp_path):
    """Its writer was killed in the middle of its second record."""
    complete = undisturbed.folder
    lines = (complete / "runs.jsonl").read_bytes().splitlines(keepends=True)
    tmp_path.joinpath("runs.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:200])
    tmp_path.joinpath("plan.log").write_bytes((complete / "plan.log").read_bytes())
    before = [record.key for record in Store(tmp_path).records.values()]
    assert start(tmp_path).wait(120) == 0
    assert results_without_times(tmp_path) == results_without_times(undisturbed)
    assert tmp_path.joinpath("runs.jsonl").read_bytes().startswith(b"".join(lines[:4]))
    assert len(before) == 4
    assert all(record.batch_runs == 3 for record in Store(tmp_path).records.values())


def test_two_processes_run_one_plan_together(undisturbed, tmp_path):
    processes = [start(tmp_path, name="one"), start(tmp_path, name="other")]
    for process in processes:  # both are ready: they begin together
        go(process)
    assert [process.wait(120) for process in processes] == [0, 0]
    found = results_without_times(tmp_path)
    commands = [line.pop("command") for line in found.values()]
    assert min(commands.count("one"), commands.count("other")) >= 3  # of 30: one run batch at least
    expected = results_without_times(undisturbed)
    for line in expected.values():
        del line["command"]
    assert found == expected
    assert has_unique_keys(tmp_path)


def test_several_workers_give_the_records_of_one(undisturbed, tmp_path):
    assert start(tmp_path, workers=2).wait(120) == 0
    assert results_without_times(tmp_path) == results_without_times(undisturbed)


def test_workers_end_when_their_parent_is_killed(tmp_path):
    """While they are busy, when they do not read from their pipes."""
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc")
    code = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r})\n"
        "from run_small_plan import sleep_forever\n"
        "from apgcn.benchmark.executors import ProcessExecutor\n"
        "list(ProcessExecutor(2).run(sleep_forever, sys.argv[1:], print))"
    )
    marks = [tmp_path / "one", tmp_path / "other"]
    process = subprocess.Popen([sys.executable, "-c", code, *marks])
    _until(lambda: all(mark.exists() for mark in marks))  # both workers have begun
    workers = _children(process.pid)
    assert len(workers) >= 3  # and Python's own helper
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


def _until(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def test_batch_of_another_process_is_awaited_and_taken_over_when_that_process_dies(tmp_path):
    """A claim is held for a while; then its process ends without a record."""
    store = Store(tmp_path)
    plan = small_plan(2)
    (batch,) = plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 3)
    claim = Store(tmp_path).claim(batch)
    assert store.claim(batch) is None

    class Releasing:
        waited = 0

        def on_waiting(self):
            self.waited += 1
            if self.waited == 2:
                claim.release()

        def on_planned(self, batches): ...
        def on_progress(self, batch, fraction): ...
        def on_finished(self, batch): ...

    progress = Releasing()
    run_plan(store, plan, progress=progress)
    assert progress.waited == 2
    assert len(store.records) == 2


def test_superseded_batch_is_not_trained(tmp_path):
    """A second process with less memory divides what the first has not begun."""
    store, plan = Store(tmp_path), small_plan(4)
    (large,) = plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 4)
    assert not is_superseded(store, large, large.keys)
    small = plan_batches(Store(tmp_path), plan, device="cpu", max_batch=lambda run_config: 2)
    assert is_superseded(store, large, large.keys)
    assert not any(is_superseded(store, batch, batch.keys) for batch in small)
    assert list(_claim_each(store, [large], {})) == []
    run_plan(store, plan)
    assert {record.batch_runs for record in store.records.values()} == {2}


def test_begun_batch_is_not_divided_even_if_it_is_too_large_now(tmp_path):
    store, plan = Store(tmp_path), small_plan(3)
    (batch,) = plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 3)
    begun = train_planned_batch(batch, lambda fraction: None, device="cpu", command="")
    store.add_records(batch, begun.records[:1], begun.steps)
    assert plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 1) == [batch]


def test_steps_of_existing_records_stay_when_their_batch_is_trained_again(tmp_path):
    """On a GPU the second training may round differently: old records keep their rows, new ones add theirs."""
    store, plan = Store(tmp_path), small_plan(3)
    batch = PlannedBatch.from_keys(plan, "cuda")
    first = train_planned_batch(batch, lambda fraction: None, device="cpu", command="")
    again = np.full_like(first.steps, 7)
    store.add_records(batch, first.records[:2], first.steps)
    store.add_records(batch, first.records, again)
    for row, expected in enumerate((first.steps[0], first.steps[1], again[2])):
        assert np.array_equal(store.mean_steps([first.records[row]]), expected)


def test_finished_plan_trains_nothing(undisturbed):
    class Refusing(SerialExecutor):
        def run(self, function, items, on_progress):
            raise AssertionError("nothing is missing")

    run_plan(undisturbed, small_plan(), executor=Refusing())


def test_larger_plan_keeps_existing_records_and_trains_the_rest(tmp_path):
    store = Store(tmp_path)
    run_plan(store, small_plan(4))
    first = dict(store.records)
    run_plan(store, small_plan(7))
    assert len(store.records) == 7
    assert all(store.records[key] == record for key, record in first.items())
    assert [len(batch.runs) for batch in store.planned_batches] == [4, 3]  # not 8: the four are done


def test_hyperparameters_are_converted_once_per_run_config(tmp_path, monkeypatch):
    """By the preset, and into the dataclasses of training; not again for each run, record or look-up."""
    from apgcn.benchmark import config as run_configs
    from apgcn.training import config as training_config

    conversions = []

    def counted(model, values):
        conversions.append(values)
        return configs_from_values(model, values)

    configs_from_values = training_config.configs_from_values
    monkeypatch.setattr(training_config, "configs_from_values", counted)
    monkeypatch.setattr(run_configs, "configs_from_values", counted)
    run_config = RunConfig.from_preset("cora", "apgcn", hidden_channels=8, max_epochs=2, penalty=0.007)  # used once
    store = Store(tmp_path)
    run_plan(store, run_config.first_runs(2))
    assert len(store.records_for(run_config)) == len(Store(tmp_path).records_for(run_config)) == 2
    assert len(conversions) <= 2


def test_missing_runs_are_looked_up_once_before_in_and_after_a_planning_round(tmp_path, monkeypatch):
    lookups = []
    missing = Store.missing
    monkeypatch.setattr(Store, "missing", lambda self, keys: lookups.append(keys) or missing(self, keys))
    run_plan(Store(tmp_path), small_plan(2))
    assert len(lookups) == 3  # before the first round, when its one batch is claimed, and after it


def test_equal_values_of_other_types_are_not_confused():
    """1, 1.0 and True are equal in Python, but not all of them are an integer or a bool."""
    assert RunConfig.create("cora", "apgcn", {"max_steps": 1}).configs[0].max_steps == 1
    for value in (1.0, True):
        with pytest.raises(InvalidInput, match="max_steps must be an integer"):
            RunConfig.create("cora", "apgcn", {"max_steps": value})


def test_batches_for_another_device_are_planned_anew_unless_begun(tmp_path):
    store, plan = Store(tmp_path), small_plan(6)
    before = plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 3)
    assert [len(batch.runs) for batch in before] == [3, 3]
    begun = train_planned_batch(before[0], lambda fraction: None, device="cpu", command="")
    store.add_records(before[0], begun.records[:1], begun.steps)
    after = plan_batches(store, plan, device="cuda", max_batch=lambda run_config: 100)
    assert after[0] == before[0]
    assert (after[1].device, after[1].runs) == ("cuda", before[1].runs)
    assert plan_batches(store, plan, device="cuda", max_batch=lambda run_config: 100) == after


@pytest.mark.parametrize("written", range(6))
def test_kill_while_batches_are_planned_does_not_change_them(tmp_path, written):
    plan = small_plan(45)
    complete = plan_batches(Store(tmp_path / "complete"), plan, device="cpu", max_batch=lambda run_config: 8)
    partial = Store(tmp_path / "partial")
    partial.add_planned(complete[:written])
    assert plan_batches(partial, plan, device="cpu", max_batch=lambda run_config: 8) == complete


def test_batches_that_no_longer_fit_are_divided(tmp_path):
    store, plan = Store(tmp_path), small_plan(6)
    plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 6)
    assert [len(batch.runs) for batch in plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 2)] == [
        2,
        2,
        2,
    ]


def test_batch_in_training_is_not_planned_anew(tmp_path):
    store, plan = Store(tmp_path), small_plan(6)
    (batch,) = plan_batches(store, plan, device="cpu", max_batch=lambda run_config: 6)
    claim = Store(tmp_path).claim(batch)
    assert plan_batches(store, plan, device="cuda", max_batch=lambda run_config: 2) == [batch]
    claim.release()


def test_record_has_the_results_of_the_training(tmp_path):
    """The same run batch, trained without plan and store."""
    from apgcn import clean, load, preset_config, split_for_test, train
    from apgcn.training.runs import Run

    plan = small_plan(3)
    store = Store(tmp_path)
    run_plan(store, plan, command="apgcn reproduce something")
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
    run_config = RunConfig.from_preset("cora", "apgcn", hidden_channels=8, max_epochs=2, seed_set="validation")
    store = Store(tmp_path)
    run_plan(store, run_config.first_runs(1))
    (record,) = store.records.values()
    assert record.test_accuracy is None
    assert 0 < record.validation_accuracy < 1
    assert "/validation=2413340114/" in record.key


def test_runs_on_published_splits_are_keyed_by_the_number_of_the_split(benchmark_graph, tmp_path):
    graph, splits = benchmark_graph("chameleon_filtered"), published_splits("chameleon_filtered")
    run_config = RunConfig.from_preset("chameleon_filtered", "apgcn", hidden_channels=4, max_epochs=2)
    plan = run_config.first_runs(12)
    assert [(key.split, key.init) for key in plan] == [(number % 10, number // 10) for number in range(12)]
    assert plan[11].text.endswith("/train_per_class=0/published=1/init=1")
    np.testing.assert_array_equal(run_from_key(plan[11]).split.test, splits[1].test)
    run_plan(Store(tmp_path), plan[-2:])
    (first, second) = Store(tmp_path).records_for(run_config)
    assert (first.seed_set, first.split, second.split) == ("published", 0, 1)
    assert first.validation_accuracy is None
    assert 0 < first.test_accuracy < 1
    assert sum(first.steps_histogram) == graph.num_nodes


def test_a_record_of_two_classes_has_the_roc_auc_and_others_do_not(benchmark_graph, tmp_path, undisturbed):
    benchmark_graph("minesweeper")
    run_config = RunConfig.from_preset("minesweeper", "gcn", hidden_channels=4, max_epochs=2)
    run_plan(Store(tmp_path), run_config.first_runs(1))
    (record,) = Store(tmp_path).records.values()
    assert 0 < record.test_roc_auc < 1
    line = json.loads(json.dumps(record.to_json()))
    assert Record.from_json(line | {"test_roc_auc": 1}).test_roc_auc == 1
    with pytest.raises(InvalidInput, match="test_roc_auc must be between 0 and 1"):
        Record.from_json(line | {"test_roc_auc": 1.5})
    assert "test_roc_auc" not in next(iter(undisturbed.records.values())).to_json()


def test_a_seed_set_that_a_graph_does_not_have_is_refused():
    for arguments, message in (
        (("actor", "apgcn", "test"), "the seed set of actor must be published, got test"),
        (("cora", "apgcn", "published"), "the seed set of cora must be test or validation, got published"),
    ):
        with pytest.raises(InvalidInput, match=message):
            RunConfig.from_preset(*arguments[:2], seed_set=arguments[2])
    with pytest.raises(InvalidInput, match="train_per_class of actor must be 0, because its splits are published"):
        RunConfig.from_preset("actor", "apgcn", train_per_class=20)
    with pytest.raises(InvalidInput, match="split must be <= 9, got 10"):
        run_from_key(RunKey(RunConfig.from_preset("actor", "apgcn"), 10, 0))


def test_train_per_class_changes_the_training_set_and_the_key(tmp_path):
    store = Store(tmp_path)
    for labels in (5, 20):
        run_config = RunConfig.from_preset("cora", "apgcn", hidden_channels=8, max_epochs=2, train_per_class=labels)
        run_plan(store, run_config.first_runs(1))
        assert len(run_from_key(run_config.first_runs(1)[0]).split.train) == 7 * labels
    few, default = store.records.values()
    assert few.key.replace("train_per_class=5/", "train_per_class=20/") == default.key


# --- executors ---


def double(item, report):
    report(0.5)
    return os.getpid(), 2 * item


def raise_user_error(item, report):
    raise ApgcnError("penalty must be >= 0, got -1.")


def raise_exception(item, report):
    raise ZeroDivisionError("in the middle of work")


def kill_itself(item, report):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(2)], ids=["serial", "processes"])
def test_executor_runs_every_item_once(executor):
    reports = []
    outcomes = dict(executor.run(double, range(7), lambda item, fraction: reports.append((item, fraction))))
    assert {item: value for item, (_, value) in outcomes.items()} == {item: 2 * item for item in range(7)}
    pids = {pid for pid, _ in outcomes.values()}
    assert len(pids) <= executor.workers
    assert (os.getpid() in pids) == isinstance(executor, SerialExecutor)
    assert (0, 0.5) in reports


def test_item_is_taken_only_when_it_can_begin():
    taken = []

    def items():
        for item in range(5):
            taken.append(item)
            yield item

    outcomes = ProcessExecutor(2).run(double, items(), lambda item, fraction: None)
    next(outcomes)
    assert len(taken) == 2
    outcomes.close()


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (raise_user_error, ApgcnError, "^penalty must be >= 0, got -1.$"),
        (raise_exception, RuntimeError, "in the middle of work"),
        (kill_itself, WorkerDied, "status -9.*enough memory"),
    ],
)
def test_errors_in_a_worker_are_raised_in_the_parent(function, error, message):
    with pytest.raises(error, match=message):
        list(ProcessExecutor(1).run(function, [1], lambda item, fraction: None))


def die_later(item, report):
    threading.Timer(0.2, os._exit, [9]).start()
    return item


def test_worker_that_dies_between_two_items_is_reported():
    outcomes = ProcessExecutor(1).run(die_later, [1, 2], lambda item, fraction: None)
    assert next(outcomes) == (1, 1)
    time.sleep(1)
    with pytest.raises(WorkerDied, match="status 9"):
        list(outcomes)


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(2)], ids=["serial", "processes"])
def test_interruption_ends_the_workers_and_releases_claims(tmp_path, executor):
    class Interrupting:
        def on_planned(self, batches): ...
        def on_progress(self, batch, fraction):
            raise KeyboardInterrupt

        def on_finished(self, batch): ...
        def on_waiting(self): ...

    store = Store(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_plan(store, small_plan(2), progress=Interrupting(), executor=executor)
    assert multiprocessing.active_children() == []
    assert store.batches_in_training == []
    (batch,) = store.planned_batches
    claim = store.claim(batch)
    assert claim is not None
    assert [other.key for other in Store(tmp_path).batches_in_training] == [batch.key]
    claim.release()


def test_read_only_store_can_be_read(tmp_path, monkeypatch):
    store = Store(tmp_path)
    run_plan(store, small_plan(1))
    batch = PlannedBatch.from_keys(small_plan(1), "cpu")
    (tmp_path / "locks" / f"{batch.key}.lock").touch()

    def refused(self, batch):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Store, "claim", refused)
    monkeypatch.setattr(Store, "planning_lock", refused)
    assert store.batches_in_training == []
    run_plan(store, small_plan(1))  # nothing is missing, nothing is written


def test_missing_graph_is_reported_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("APGCN_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("apgcn.data.download._download", _no_file)
    load_cleaned.cache_clear()
    with pytest.raises(MissingFile):
        run_plan(Store(tmp_path / "store"), RunConfig.from_preset("pubmed", "apgcn").first_runs(1))
    assert not (tmp_path / "store").exists()


def _no_file(dataset, folder):
    raise MissingFile("pubmed.npz is not there.")


def fail_with_full_disk(item, report):
    raise OSError(28, "No space left on device")


def fail_without_memory(item, report):
    raise MemoryError("Unable to allocate 9 TiB")


def test_full_disk_is_a_user_error_and_no_memory_is_not():
    with pytest.raises(ApgcnError, match="No space left"):
        list(ProcessExecutor(1).run(fail_with_full_disk, [1], lambda item, fraction: None))
    with pytest.raises(RuntimeError, match="MemoryError"):
        list(ProcessExecutor(1).run(fail_without_memory, [1], lambda item, fraction: None))


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
def test_edited_planned_batch_is_refused(change):
    line = json.loads(json.dumps(PlannedBatch.from_keys(small_plan(3), "cpu").to_json()))
    with pytest.raises(InvalidInput):
        PlannedBatch.from_json({**line, **change})


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
def test_record_with_an_invalid_value_is_refused(undisturbed, field, value):
    line = json.loads(json.dumps(next(iter(undisturbed.records.values())).to_json()))
    with pytest.raises(InvalidInput, match=f"{field}|key must be"):
        Record.from_json({**line, field: value})
    del line[field]
    with pytest.raises(InvalidInput, match=f"{field} must be there"):
        Record.from_json(line)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps_mean": 999.0}, "steps_mean must be that of steps_histogram"),
        ({"steps_histogram": [4, 0]}, "steps_mean must be that of steps_histogram"),
        ({"steps_histogram": [4], "steps_mean": 1.0}, "steps_histogram must have max_steps = 10 counts, got 1"),
        ({"best_epoch": 10**6}, "best_epoch must be at most epochs"),
    ],
)
def test_record_whose_fields_contradict_each_other_is_refused(undisturbed, changes, message):
    line = json.loads(json.dumps(next(iter(undisturbed.records.values())).to_json()))
    with pytest.raises(InvalidInput, match=message):
        Record.from_json({**line, **changes})


def test_400_flips_of_a_bit_in_a_store_are_all_refused(undisturbed, tmp_path):
    """Each at a random place of a random file of records."""
    shutil.copytree(undisturbed.folder, tmp_path, dirs_exist_ok=True)
    store = Store(tmp_path)
    store.add_graph(GraphRecord("cora", 7, 1433, 2485, 5069, {"apgcn": "0"}, "apgcn reproduce table1"))
    files = [path for path in tmp_path.iterdir() if path.suffix in (".jsonl", ".log")]
    assert {path.name for path in files} == {"runs.jsonl", "plan.log", "graphs.log"}
    moments = random.Random(21)
    for _ in range(400):
        path = moments.choice(files)
        content = path.read_bytes()
        flipped = bytearray(content)
        flipped[moments.randrange(len(content))] ^= 1 << moments.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(BrokenFile, match=f"line .* of .*{path.name}"):
            _ = (store := Store(tmp_path)).records, store.planned_batches, store.graphs
        path.write_bytes(content)
    assert len(Store(tmp_path).records) == 30


def test_planning_reports_a_lock_that_another_process_holds(tmp_path, monkeypatch):
    """The report comes while the lock is held, and planning continues when it is released."""
    monkeypatch.setattr("apgcn.benchmark.scheduler.LOCKED_SECONDS", 0.01)
    store = Store(tmp_path)
    held = store.planning_lock()
    held.acquire()
    reports: list[int] = []

    def on_waiting():
        reports.append(1)
        held.release()

    plan = small_plan(3)
    batches = plan_batches(Store(tmp_path), plan, device="cpu", max_batch=lambda run_config: 3, on_waiting=on_waiting)
    assert [key for batch in batches for key in batch.keys] == plan
    assert reports == [1]


def test_planned_batch_survives_a_round_trip_through_json():
    batch = PlannedBatch.from_keys(small_plan(3), "cpu")
    assert PlannedBatch.from_json(json.loads(json.dumps(batch.to_json()))) == batch


def test_record_survives_a_round_trip_through_json(undisturbed):
    for record in undisturbed.records.values():
        assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_a_record_of_nodes_without_steps_counts_them_and_is_checked(tmp_path):
    config = RunConfig.from_preset("cora_ml", "apgcn", min_steps=0)
    (key,) = config.first_runs(1)
    assert "min_steps=0" in key.text
    assert "min_steps" not in RunConfig.from_preset("cora_ml", "apgcn", min_steps=1).text
    record = fake_record(key, 0.8, [0, 0, 3, 10], file="steps/x.npz")
    assert (record.steps_histogram, record.steps_mean) == ((2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1), 3.25)
    line = json.loads(json.dumps(record.to_json()))
    assert Record.from_json(line) == record
    with pytest.raises(InvalidInput, match=r"steps_histogram must have max_steps \+ 1 = 11 counts, got 10"):
        Record.from_json({**line, "steps_histogram": [2, 0, 0, 2, 0, 0, 0, 0, 0, 0], "steps_mean": 1.5})


def test_records_without_min_steps_count_from_one(undisturbed):
    line = json.loads(json.dumps(next(iter(undisturbed.records.values())).to_json()))
    del line["hyperparameters"]["min_steps"]
    assert Record.from_json(line).first_step == 1
    assert Record.from_json({**line, "model": "another"}).first_step == 1
