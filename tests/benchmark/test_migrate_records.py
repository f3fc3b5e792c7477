"""scripts/migrate_records: records of apgcn 0.1 get the new names and keep their values."""

import io
import json
import runpy
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from filelock import FileLock
from helpers import ROOT

from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.jsonl_log import format_line
from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.errors import InvalidInput

SCRIPT = ROOT / "scripts" / "migrate_records"
SEEDS = (2144199730, 794209841)  # the first two of the protocol
SETTINGS = {
    "dropout": 0.5, "edge_dropout": 0.5, "epsilon": 0.01, "halting_every": 5, "hidden": 16, "l2": 0.008,
    "learning_rate": 0.01, "max_epochs": 10000, "max_steps": 3, "patience": 100, "penalty": 0.001, "seed_dropout": 0.25,
    "update_dropout": 0.0, "watch": "training",
}  # fmt: skip
CHANGED = 'hidden=16,max_steps=3,penalty=0.001,seed_dropout=0.25,watch="training"'
NEW_CHANGED = 'hidden_channels=16,max_steps=3,monitor="training",penalty=0.001,z0_dropout=0.25'
STEPS = np.array([[1, 2, 3, 3], [2, 2, 1, 3]], dtype=np.uint8)
VERSIONS = {"apgcn": "0.1.0", "torch": "2.13.0"}


def old_record(row: int) -> dict:
    return {
        "key": f"cora/apgcn/{CHANGED}/labels=20/test={SEEDS[row]}/initialisation=0",
        "dataset": "cora",
        "model": "apgcn",
        "settings": SETTINGS,
        "per_class": 20,
        "purpose": "test",
        "split": SEEDS[row],
        "initialisation": 0,
        "train_accuracy": 1.0,
        "stopping_accuracy": 0.1 + 0.2,
        "validation_accuracy": 0.8,
        "test_accuracy": [0.8123456789012345, None][row],
        "steps_mean": float(STEPS[row].mean()),
        "steps_histogram": np.bincount(STEPS[row], minlength=4)[1:].tolist(),
        "steps_file": "steps/cora-apgcn-0123456789ab.npz",
        "steps_row": row,
        "best_epoch": 10,
        "epochs": 110,
        "seconds": 1.5,
        "pack_runs": 2,
        "device": "cpu",
        "hardware": "a CPU",
        "versions": VERSIONS,
        "command": "apgcn reproduce table2 --settings paper --set watch=training",
    }


def old_plan() -> dict:
    condition = {"dataset": "cora", "model": "apgcn", "settings": SETTINGS, "per_class": 20, "purpose": "test"}
    runs = [[seed, 0] for seed in SEEDS]
    return {"key": "cora-apgcn-0123456789ab", "condition": condition, "runs": runs, "device": "cpu"}


def old_timing() -> dict:
    names = ("step_ms", "evaluation_ms", "epoch_ms", "epoch_low", "epoch_high")
    return {
        "key": f"cora/apgcn/{CHANGED}/labels=20/pack=1/a CPU / 2 GHz",
        "dataset": "cora",
        "model": "apgcn",
        "settings": SETTINGS,
        "pack_runs": 1,
        "epochs": 30,
        **{name: 0.1 * number for number, name in enumerate(names, start=1)},
        "device": "cpu",
        "hardware": "a CPU / 2 GHz",
        "versions": VERSIONS,
        "command": "apgcn reproduce table5",
    }


GRAPH = {"key": "cora", "classes": 7, "features": 1433, "nodes": 4, "edges": 3, "versions": VERSIONS, "command": "c"}
SUMMARY = {
    "dataset": "cora", "runs": 1, "accuracy_mean": 0.8, "accuracy_interval": 0.01, "steps_deviation": 1.25,
    "settings_kind": "paper", "settings": SETTINGS, "versions": VERSIONS,
    "each_run": [{"split": 5, "initialisation": 2, "test_accuracy": 1 / 3}],
}  # fmt: skip


def write_lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def folder(tmp_path):
    """A store of version 0.1 with two runs of one batch, and a summary beside it."""
    store = tmp_path / "old" / "store"
    (store / "steps").mkdir(parents=True)
    np.savez_compressed(store / "steps" / "cora-apgcn-0123456789ab.npz", steps=STEPS)
    write_lines(store / "runs.jsonl", old_record(0), old_record(1))
    write_lines(store / "plan.log", old_plan())
    write_lines(store / "timings.log", old_timing())
    write_lines(store / "graphs.log", GRAPH)
    (tmp_path / "old" / "summary.json").write_text(json.dumps(SUMMARY, indent=1) + "\n")
    return tmp_path / "old"


def migrate(*paths):
    """Call the script's `main` in this process, which is faster than starting one; `test_script_is_a_command` does."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = runpy.run_path(str(SCRIPT))["main"]([str(path) for path in paths])
    return subprocess.CompletedProcess([], status, output.getvalue(), errors.getvalue())


def test_script_is_a_command(tmp_path):
    process = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr == f"migrate_records: {tmp_path} must hold records, but there are none in it.\n"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_migrated_store_has_the_same_values_under_the_new_names(folder):
    done = migrate(folder)
    assert done.returncode == 0, done.stderr
    assert f"{folder / 'store'} rewritten (runs.jsonl: 2, timings.log: 1, graphs.log: 1, plan.log: 1)" in done.stdout
    store = Store.open(folder / "store")
    (batch,) = store.planned_batches
    names = {"settings": "hyperparameters", "per_class": "train_per_class", "purpose": "seed_set"}
    names |= {"initialisation": "init", "pack_runs": "batch_runs"}
    for row, record in enumerate(store.records.values()):
        old, new = old_record(row), record.to_json()
        assert new.pop("key") == f"cora/apgcn/{NEW_CHANGED}/train_per_class=20/test={SEEDS[row]}/init=0"
        assert new.pop("steps_file") == store.steps_file(batch)
        assert new.pop("hyperparameters") == {
            "dropout": 0.5, "edge_dropout": 0.5, "epsilon": 0.01, "halting_interval": 5, "hidden_channels": 16,
            "l2": 0.008, "learning_rate": 0.01, "max_epochs": 10000, "max_steps": 3, "patience": 100,
            "penalty": 0.001, "z0_dropout": 0.25, "update_dropout": 0.0, "monitor": "training",
        }  # fmt: skip
        assert list(new["steps_histogram"]) == old["steps_histogram"]
        for name in ("key", "steps_file", "settings", "steps_histogram"):
            old.pop(name)
        new.pop("steps_histogram")
        assert new.pop("threads") is None  # which version 0.1 did not record
        assert {names.get(name, name): value for name, value in old.items()} == new
        assert np.array_equal(store.mean_steps([record]), STEPS[row])
    assert [key.text for key in batch.keys] == list(store.records)
    assert [path.stem for path in (folder / "store" / "steps").iterdir()] == [batch.key]
    (timing,) = store.timings.values()
    assert timing.key == f"cora/apgcn/{NEW_CHANGED}/train_per_class=20/batch_runs=1/a CPU / 2 GHz"
    assert timing.epoch_ms == old_timing()["epoch_ms"]
    assert (folder / "store" / "graphs.log").read_text() == json.dumps(GRAPH) + "\n"


def test_migrated_store_lacks_no_run_of_its_plan(folder):
    assert migrate(folder).returncode == 0
    store = Store(folder / "store")
    changes = {"hidden_channels": 16, "max_steps": 3, "penalty": 0.001, "z0_dropout": 0.25, "monitor": "training"}
    plan = RunConfig.from_preset("cora", "apgcn", **changes).first_runs(2)
    assert store.missing(plan) == []


def test_migrated_summary_has_the_new_names_and_layout(folder):
    assert migrate(folder / "summary.json").returncode == 0
    text = (folder / "summary.json").read_text()
    summary = json.loads(text)
    assert text == json.dumps(summary, indent=1) + "\n"
    assert (summary["accuracy_ci95"], summary["steps_std"], summary["preset"]) == (0.01, 1.25, "paper")
    assert summary["each_run"] == [{"split": 5, "init": 2, "test_accuracy": 1 / 3}]
    assert summary["hyperparameters"]["monitor"] == "training"
    assert summary["versions"] == VERSIONS
    assert not summary.keys() & SUMMARY.keys() - {"dataset", "runs", "accuracy_mean", "versions", "each_run"}


def test_second_migration_changes_nothing(folder):
    assert migrate(folder).returncode == 0
    before = contents(folder)
    again = migrate(folder)
    assert again.returncode == 0
    assert again.stdout.count("has the new names already") == 2
    assert contents(folder) == before


def test_lines_with_a_checksum_keep_it_and_are_verified(folder):
    assert migrate(folder).returncode == 0
    store = Store(folder / "store")
    record = next(iter(store.records.values()))
    runs = folder / "store" / "runs.jsonl"
    runs.write_bytes(format_line(record.to_json()))
    before = contents(folder)
    assert migrate(folder).returncode == 0
    assert contents(folder) == before
    runs.write_text(runs.read_text().replace('"seconds": 1.5', '"seconds": 1.6'))
    assert "line 1 of" in migrate(folder).stderr


@pytest.mark.parametrize("reached", ["steps linked", "runs replaced", "old steps removed"])
def test_interrupted_migration_is_completed_by_the_next(folder, tmp_path, reached):
    """The state after each step of a migration that was killed."""
    complete = tmp_path / "complete"
    shutil.copytree(folder, complete)
    assert migrate(complete).returncode == 0
    (steps,) = (complete / "store" / "steps").iterdir()
    shutil.copy(steps, folder / "store" / "steps")
    if reached != "steps linked":
        shutil.copy(complete / "store" / "runs.jsonl", folder / "store")
    if reached == "old steps removed":
        (folder / "store" / "steps" / "cora-apgcn-0123456789ab.npz").unlink()
    assert migrate(folder).returncode == 0
    assert contents(folder) == contents(complete)


def test_incomplete_last_line_is_dropped_and_a_broken_one_is_refused(folder):
    runs = folder / "store" / "runs.jsonl"
    lines = runs.read_text()
    runs.write_text(lines + '{"key": "cor')
    assert "runs.jsonl: 2," in migrate(folder).stdout
    assert len(Store(folder / "store").records) == 2
    runs.write_text('{"key": "cor\n' + lines)
    refused = migrate(folder)
    assert refused.returncode == 2
    assert "line 1 of" in refused.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("other.json", '{"a": 1}', "must hold records of apgcn"),
        ("other.json", "not JSON", "must be JSON, but is not"),
        ("other.jsonl", "[1]\n", "must hold records of apgcn"),
        ("both.json", '{"versions": {}, "settings": {}, "hyperparameters": {}}', "has both"),
        ("table.csv", "a,b\n", "must be a .json or .jsonl file"),
        ("missing.json", None, "does not exist"),
    ],
)
def test_unknown_files_are_refused_in_one_sentence_and_nothing_is_written(folder, name, text, message):
    if text is not None:
        (folder / name).write_text(text)
    before = contents(folder)
    refused = migrate(folder / "store", folder / name)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert refused.stdout == ""
    assert contents(folder) == before


def test_record_whose_key_does_not_follow_from_its_fields_is_refused(folder):
    write_lines(folder / "store" / "runs.jsonl", {**old_record(0), "initialisation": 1})
    before = contents(folder)
    refused = migrate(folder)
    assert refused.returncode == 2
    assert "key must be that of the other fields" in refused.stderr
    assert contents(folder) == before


def test_store_in_use_is_refused(folder):
    (folder / "store" / "locks").mkdir()
    with FileLock(folder / "store" / "locks" / "cora-apgcn-0123456789ab.lock"):
        refused = migrate(folder)
    assert refused.returncode == 2
    assert "a process writes to it" in refused.stderr
    assert json.loads((folder / "store" / "runs.jsonl").read_text().splitlines()[0]) == old_record(0)


def test_folder_without_records_is_refused(tmp_path):
    refused = migrate(tmp_path)
    assert refused.returncode == 2
    assert "there are none in it" in refused.stderr


@pytest.mark.parametrize("left", ["runs.jsonl", "plan.log", "timings.log"])
def test_old_store_is_refused_by_every_command_with_the_line_that_migrates_it(folder, left, capsys):
    """Whichever of its files is left, before anything is written."""
    store = folder / "store"
    for name in {"runs.jsonl", "plan.log", "timings.log"} - {left}:
        (store / name).unlink()
    before = contents(folder)
    for command in (
        ["status", str(store)],
        ["report", str(store)],
        ["reproduce", "table1", "--datasets", "cora", "--store", str(store)],
        ["reproduce", "table2", "--datasets", "cora", "--runs", "1", "--store", str(store)],
        ["tune", "cora", "--trials", "1", "--runs", "1", "--store", str(store)],
    ):
        assert run(command) == 2, command
        printed = capsys.readouterr()
        assert printed.err.count("\n") == 1
        assert f"{store} was written by apgcn 0.1; run: python scripts/migrate_records {store}" in printed.err
        assert printed.out == ""
    assert contents(folder) == before
    with pytest.raises(InvalidInput, match=r"was written by apgcn 0\.1"):
        Store(store)


def test_committed_results_have_all_their_records():
    results = ROOT / "results"
    lines = {
        "apgcn-cpu/runs.jsonl": 280,
        "first-readings/runs.jsonl": 840,
        "h200/runs.jsonl": 3640,
        "tuning/runs.jsonl": 1304,
        "gaps.jsonl": 15,
        "fuzz.jsonl": 8,
    }
    assert {name: len((results / name).read_text().splitlines()) for name in lines} == lines
    for name, count in (("apgcn-cpu", 280), ("h200", 3640), ("tuning", 1304)):
        store = Store.open(results / name)
        assert len(store.records) == count
        assert {record.steps_file for record in store.records.values()} <= {
            f"steps/{path.name}" for path in (results / name / "steps").iterdir()
        }


def test_committed_results_have_the_new_names():
    done = migrate(ROOT / "results", ROOT / "benchmarks" / "results")
    assert done.returncode == 0, done.stderr
    assert "rewritten" not in done.stdout
