"""`apgcn reproduce`, `status`, `report`, `tune`, `models`: printed output, stored records, messages for mistakes."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from helpers.fake_records import add_fake_records, fake_record
from helpers.processes import shell_status

from apgcn.benchmark.config import RunConfig, RunKey
from apgcn.benchmark.records import PlannedBatch
from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.data.splits import VALIDATION_SEEDS
from apgcn.models.registry import MODELS


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    """Three epochs of a tiny network, one round of Bt.FP: the commands are tested here, not the training."""
    from apgcn.benchmark import config

    small = {"hidden_channels": 8, "rounds": 1}

    def quick(model):
        defaults = config.default_hyperparameters(model)
        return {"max_epochs": 3} | {name: value for name, value in small.items() if name in defaults}

    preset_config = config.preset_config
    monkeypatch.setattr(
        config,
        "preset_config",
        lambda dataset, *, model, **changes: preset_config(dataset, model=model, **{**quick(model), **changes}),
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


def reproduce(what, folder, *options):
    return run(["reproduce", what, "--store", str(folder), "--datasets", "cora", *options])


def test_reproduce_shows_the_table_and_keeps_the_records(folder, capsys):
    assert reproduce("table2", folder, "--runs", "2", "--models", "apgcn") == 0
    printed = capsys.readouterr()
    assert "Table 2: accuracy on citation and co-author graphs" in printed.out
    assert "not in the paper" in printed.out
    assert f"report {folder} --html report.html" in printed.out
    assert printed.err == "0/2 runs: run batches to train: 1\n2/2 runs: cora apgcn, batch of 2\n"
    records = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [record["command"] for record in records] == [
        "apgcn reproduce table2 --models apgcn --datasets cora --runs 2"
    ] * 2


def test_waiting_for_another_process_is_logged_once(folder, capsys):
    """What is left is checked twice a second; it is logged once."""
    from apgcn.benchmark.records import PlannedBatch
    from apgcn.cli.progress import plan_progress

    batch = PlannedBatch.from_keys(RunConfig.from_preset("cora", "apgcn").first_runs(3), "cpu")
    with plan_progress(3, lambda: 3, estimate=lambda batch: 1.0) as progress:
        for _ in range(5):
            progress.on_planned([batch])
            progress.on_waiting()
    assert capsys.readouterr().err == (
        "0/3 runs: run batches to train: 1\n0/3 runs: waiting for another process that plans or trains the others\n"
    )


def test_reproduce_again_trains_nothing(folder, capsys):
    assert reproduce("table2", folder, "--runs", "2", "--models", "apgcn,gcn") == 0
    lines = (folder / "runs.jsonl").read_bytes()
    capsys.readouterr()
    assert reproduce("figure2", folder, "--runs", "2", "--models", "apgcn,gcn", "--json") == 0  # needs the same runs
    printed = capsys.readouterr()
    assert (folder / "runs.jsonl").read_bytes() == lines
    assert printed.err == ""
    rows = json.loads(printed.out)["artifacts"]["figure2"]
    assert [(row["dataset"], row["model"], row["runs"]) for row in rows] == [("cora", "apgcn", 2)]  # a GCN never halts


def test_reproduce_all_does_every_experiment(folder, capsys, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.worker.TIMED_EPOCHS", 2)
    monkeypatch.setattr("apgcn.benchmark.penalty_sweep.PENALTIES", (0.005, 0.1))
    monkeypatch.setattr("apgcn.benchmark.figure4.TRAIN_PER_CLASS_VALUES", (5, 20))
    models = "apgcn,gcn,btfp,ap-appnp"  # two that halt, two with weights of another kind or none
    assert reproduce("all", folder, "--runs", "1", "--models", models, "--json") == 0
    found = json.loads(capsys.readouterr().out)["artifacts"]
    assert {name: len(rows) for name, rows in found.items()} == {
        "table1": 1, "table2": 4, "figure2": 2, "table4": 2, "table5": 3, "figure3": 4, "figure4": 8,
        "freezing": 4, "ablation": 16,
    }  # fmt: skip
    # first settings, fewer labels; another penalty, frozen; the other seven combinations of the script's settings
    assert len(Store(folder).records) == 2 * 3 + 2 * 2 + 2 + 2 * 7


def test_reproduce_trains_every_model(folder, capsys):
    assert reproduce("table2", folder, "--runs", "1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["artifacts"]["table2"]
    assert {row["model"]: row["runs"] for row in rows} == dict.fromkeys(MODELS, 1)
    presets = {row["model"]: row["preset"] for row in rows}
    assert (presets["apgcn"], presets["gcn"], presets["ap-appnp"]) == ("paper", "published", "tuned")


def test_reproduce_with_a_preset_leaves_out_models_that_lack_it(folder, capsys):
    options = ("--runs", "1", "--models", "apgcn,gcn", "--preset", "paper", "--json")
    assert reproduce("table2", folder, *options) == 0
    rows = json.loads(capsys.readouterr().out)["artifacts"]["table2"]
    assert [row["model"] for row in rows] == ["apgcn"]  # gcn has no preset "paper" for cora
    assert next(iter(Store(folder).records.values())).command.endswith("--preset paper --runs 1")


def test_models_are_listed_as_text_and_as_json(capsys):
    assert run(["models"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "AP-GCN",
        "apgcn, presets paper and published (default)",
        "Kipf and Welling",
        "heads=8, hidden_channels=8, dropout=0.6, l2=0.01",
        "from: PPNP paper",
    ):
        assert part in shown
    assert run(["models", "gcn", "--dataset", "amazon_photo", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    (gcn,) = listed["models"]
    assert (listed["dataset"], gcn["name"], gcn["default_preset"]) == ("amazon_photo", "gcn", "paper")
    assert gcn["weights"] == 745 * 64 + 64 + 64 * 8 + 8
    assert gcn["presets"]["published"]["l2"]["value"] == 0.02
    assert "PPNP paper" in gcn["presets"]["published"]["l2"]["source"]
    assert gcn["presets"]["paper"]["l2"] == {"value": 0.0, "source": "AP-GCN paper, Section V"}


def test_tune_searches_the_named_hyperparameters(folder, capsys):
    options = ("--store", str(folder), "--trials", "2", "--runs", "1", "--json")
    assert run(["tune", "cora", "--model", "arma", "--search", "stacks,depth", *options]) == 0
    first, *others = sorted(json.loads(capsys.readouterr().out)["trials"], key=lambda trial: trial["trial"])
    changed = {
        name
        for other in others
        for name in first["hyperparameters"]
        if other["hyperparameters"][name] != first["hyperparameters"][name]
    }
    assert changed
    assert changed <= {"stacks", "depth"}
    assert run(["tune", "cora", "--model", "gcn", "--search", "stacks", *options]) == 2
    assert (
        "unknown hyperparameter to search for gcn 'stacks'; known: l2, dropout, edge_dropout, hidden_channels, "
        in capsys.readouterr().err
    )


def test_status_shows_finished_and_missing_runs(folder, capsys):
    from apgcn.benchmark.scheduler import plan_batches

    run_config = RunConfig.from_preset("cora", "apgcn")
    plan_batches(Store(folder), run_config.first_runs(6), device="cpu", max_batch=lambda run_config: 3)
    assert run(["status", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "0 of 6 runs are done, 6 are left." in shown
    assert "the time left is known when a run batch of every model is done" in shown
    add_fake_records(Store(folder), run_config, [0.8] * 3)
    assert run(["status", str(folder), "--json"]) == 0
    now = json.loads(capsys.readouterr().out)
    assert (now["planned"], now["done"], now["left"], now["in_training"]) == (6, 3, 3, 0)
    assert [(part["dataset"], part["seed_set"]) for part in now["run_configs"]] == [("cora", "test")]
    assert now["seconds_left"] == pytest.approx(6)
    assert run(["status", str(folder)]) == 0
    assert "about 6.0 s of work are left" in capsys.readouterr().out


def test_status_counts_finished_runs_of_a_model_that_is_not_registered_here(folder, capsys):
    """Its defaults are not known here, so the text of its key does not follow from its hyperparameters."""
    known = RunConfig.from_preset("cora", "apgcn")
    unknown = RunConfig.create("cora", "elsewhere", {"depth": 3, "max_steps": 10})
    keys = [RunKey(unknown, split, 0) for split in (1, 2)]
    batch = PlannedBatch.from_keys(keys, "cpu")
    records = [
        replace(
            fake_record(key, 0.8, [3] * 4, row=row, file=Store.steps_file(batch)),
            key=key.text.replace("/depth=3", ""),
        )
        for row, key in enumerate(keys)
    ]
    assert all(record.key != record.run_key.text for record in records)
    store = Store.open_or_create(folder)
    store.add_planned([batch])
    store.add_records(batch, records, np.full((2, 4), 3))
    add_fake_records(store, known, [0.8])
    assert run(["status", str(folder), "--json"]) == 0
    now = json.loads(capsys.readouterr().out)
    assert {part["model"]: (part["planned"], part["done"]) for part in now["run_configs"]} == {
        "elsewhere": (2, 2),
        "apgcn": (1, 1),
    }
    assert now["left"] == 0


def test_tune_keeps_its_records_in_a_folder_of_its_own_unless_told_otherwise(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "cora", "--model", "apgcn", "--trials", "1", "--runs", "1"]) == 0
    assert len(Store(tmp_path / "tuning").records) == 2
    assert "report tuning --html report.html" in capsys.readouterr().out


def test_status_of_a_finished_store(folder, capsys):
    add_fake_records(Store(folder), RunConfig.from_preset("cora", "apgcn"), [0.8] * 3)
    assert run(["status", str(folder)]) == 0
    assert "all 3 planned runs are done." in capsys.readouterr().out


@pytest.fixture
def kept(folder):
    add_fake_records(Store(folder), RunConfig.from_preset("cora_ml", "apgcn"), [0.85, 0.86])
    return str(folder)


def test_report_writes_a_page(kept, tmp_path, capsys):
    page = tmp_path / "report.html"
    assert run(["report", kept, "--html", str(page)]) == 0
    assert capsys.readouterr().out == f"written: {page}\n"
    assert "<title>apgcn: store</title>" in page.read_text()


@pytest.mark.parametrize(
    ("form", "part"),
    [
        ("--markdown", "| Cora-ML | AP-GCN | paper | 2 | 85.50 ± 0.50 |"),
        ("--latex", r"Cora-ML & AP-GCN & paper & 2 & 85.50 $\pm$ 0.50 &"),
        ("--csv", "table2,cora_ml,apgcn,paper,2,85.5,"),
    ],
)
def test_report_prints_text(kept, capsys, form, part):
    assert run(["report", kept, form]) == 0
    assert part in capsys.readouterr().out


def test_report_prints_one_json_object(kept, capsys):
    assert run(["report", kept, "--json", "--only", "table2"]) == 0
    found = json.loads(capsys.readouterr().out)["artifacts"]
    assert list(found) == ["table2"]


def test_report_prints_a_table(kept, capsys):
    assert run(["report", kept, "--only", "table2"]) == 0
    shown = capsys.readouterr().out
    assert "85.50 ± 0.50" in shown
    assert "Not run here: 37 more of the paper's numbers." in shown
    assert "Table 5" not in shown


def test_tune_uses_validation_seeds_only(folder, capsys):
    assert run(["tune", "cora", "--store", str(folder), "--trials", "3", "--runs", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["trials"]) == 4
    scores = [trial["validation_accuracy"] for trial in found["trials"]]
    assert scores == sorted(scores, reverse=True)
    for record in Store(folder).records.values():
        assert record.seed_set == "validation"
        assert record.split in VALIDATION_SEEDS
        assert record.test_accuracy is None
    papers = next(trial for trial in found["trials"] if trial["trial"] == 0)
    assert papers["hyperparameters"]["penalty"] == 0.005
    for trial in found["trials"]:
        assert 1e-4 <= trial["hyperparameters"]["penalty"] <= 0.1
        assert 2 <= trial["hyperparameters"]["max_steps"] <= 20


def test_tune_continues_where_it_stopped_and_finds_the_same(folder, tmp_path, capsys):
    options = ["--runs", "1", "--json"]
    assert run(["tune", "cora", "--store", str(folder), "--trials", "2", *options]) == 0
    before = (folder / "runs.jsonl").read_bytes()
    assert run(["tune", "cora", "--store", str(folder), "--trials", "4", *options]) == 0
    assert (folder / "runs.jsonl").read_bytes().startswith(before)
    continued = json.loads(capsys.readouterr().out.splitlines()[1])
    assert run(["tune", "cora", "--store", str(tmp_path / "other"), "--trials", "4", *options]) == 0
    assert json.loads(capsys.readouterr().out) == continued


def test_tune_shows_the_best_and_how_to_use_it(folder, capsys):
    assert run(["tune", "cora", "--store", str(folder), "--trials", "1", "--runs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "none: the default preset" in shown
    assert "train cora" in shown
    assert run(["report", str(folder), "--only", "tuning"]) == 0
    assert "Tuning: hyperparameters evaluated on the validation seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reproduce", "table7"], "unknown table or figure 'table7'"),
        (["reproduce", "table2", "--models", "gnc"], "unknown model 'gnc'"),
        (["reproduce", "table2", "--datasets", "cora,,koala"], "unknown dataset 'koala'"),
        (["reproduce", "table2", "--datasets", ""], "there must be at least one dataset, got none."),
        (["reproduce", "table3", "--datasets", "cora"], "table3 shows amazon_computers, amazon_photo, not cora"),
        (
            ["reproduce", "figure3", "--models", "gcn,gat"],
            "figure3 needs a model that halts (apgcn, ap-appnp, ap-arma",
        ),
        (["reproduce", "table5", "--models", "btfp"], "table5 needs a model that is trained (apgcn, vgcn"),
        (["reproduce", "table2", "--runs", "0"], "runs must be >= 1, got 0."),
        (["reproduce", "table2", "--workers", "0"], "workers must be >= 1, got 0."),
        (["reproduce", "table2", "--device", "gpu"], "device must be cpu, cuda or cuda:N, got 'gpu'."),
        (["reproduce", "table4", "--datasets", "actor"], "table4 shows citeseer, cora_ml, pubmed, ms_academic, amazon"),
        (["tune", "actor"], "the seed set of actor must be published, got validation: its splits come with its file"),
        (["tune", "coral"], "unknown dataset 'coral'; did you mean 'cora'?"),
        (["tune", "cora", "--trials", "0"], "trials must be >= 1, got 0."),
        (["tune", "cora", "--model", "x"], "unknown model 'x'"),
        (["tune", "cora", "--search", ","], "--search must name at least one hyperparameter, got ','."),
    ],
)
def test_a_mistake_costs_one_sentence(arguments, sentence, folder, capsys):
    assert run([*arguments, "--store", str(folder)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"apgcn: {sentence}")
    assert printed.err.count("\n") == 1
    assert not folder.exists()


def test_a_folder_that_is_no_store_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    add_fake_records(Store(tmp_path / "inner"), RunConfig.from_preset("cora", "apgcn"), [0.8])
    for command in ("status", "report"):
        for place, sentence in (
            (tmp_path, f"must be a store, but has no records; try {tmp_path / 'inner'}."),
            (tmp_path / "inner" / "steps", "apgcn reproduce WHAT --store FOLDER creates one."),
            (tmp_path / "missing", f"a store must be a folder, but {tmp_path / 'missing'} is not there."),
            (tmp_path / "file", f"a store must be a folder, but {tmp_path / 'file'} is a file."),
        ):
            assert run([command, str(place)]) == 2
            assert sentence in capsys.readouterr().err
    assert reproduce("table1", tmp_path / "file") == 2
    assert "a store must be a folder" in capsys.readouterr().err
    assert reproduce("table1", tmp_path) == 2
    assert "has other files in it" in capsys.readouterr().err


def test_an_empty_folder_becomes_a_store(tmp_path):
    assert reproduce("table1", tmp_path) == 0
    assert reproduce("table1", tmp_path) == 0


def test_a_selected_table_without_records_is_reported(kept, capsys):
    assert run(["report", kept, "--only", "table3"]) == 0
    assert f"nothing recorded: apgcn reproduce table3 --store {kept}" in capsys.readouterr().out


def test_two_output_formats_at_once_are_refused(kept, capsys):
    assert run(["report", kept, "--csv", "--latex"]) == 2
    assert "only one of --markdown, --latex, --csv and --json" in capsys.readouterr().err


def test_at_least_one_table_must_be_named(kept, capsys):
    assert run(["report", kept, "--only", " , "]) == 2
    assert "--only must name at least one of table1, table2" in capsys.readouterr().err


def test_an_unknown_table_is_reported(kept, capsys):
    assert run(["report", kept, "--only", "table2,table9"]) == 2
    assert "unknown table or figure 'table9'" in capsys.readouterr().err


def test_a_damaged_store_is_refused_with_its_line(kept, folder, capsys):
    lines = (folder / "runs.jsonl").read_text().splitlines()
    (folder / "runs.jsonl").write_text(f"{lines[0][:50]}\n{lines[1]}\n")
    for command in ("status", "report"):
        assert run([command, kept]) == 2
        assert "line 1 of" in capsys.readouterr().err
    assert reproduce("table2", folder, "--runs", "1") == 2


def test_a_record_that_was_edited_is_refused(kept, folder, capsys):
    text = (folder / "runs.jsonl").read_text()
    (folder / "runs.jsonl").write_text(text.replace('"hidden_channels": 8', '"hidden_channels": 9', 1))
    assert run(["status", kept]) == 2
    assert "line 1 of" in (message := capsys.readouterr().err)
    assert "key must be that of the other fields" in message


def command(*arguments):
    return [sys.executable, "-m", "apgcn", *map(str, arguments)]


def test_after_nohup_a_closed_terminal_ends_nothing(folder):
    waiting = command("reproduce", "table2", "--datasets", "cora", "--store", folder)
    code = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({waiting[0]!r}, {waiting!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    wait_until_training(folder)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.003, 0.01, 0.03])
def test_a_second_signal_leaves_no_worker_alive(folder, pause):
    """Ctrl-C, and at once the terminal is closed: the second signal must not keep the workers alive."""
    process = subprocess.Popen(
        command("reproduce", "table2", "--datasets", "cora", "--store", folder, "--workers", "2"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until_training(folder)
    time.sleep(2)  # the workers are at work
    for ending in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        process.send_signal(ending)
        time.sleep(pause)
    process.wait(20)
    assert any(is_gone(process.pid) for _ in range(100)), "some of its processes are left"


def test_closed_or_full_streams_are_no_error(kept):
    for line, status in (
        (f"{sys.executable} -m apgcn status {kept} >&-", 0),
        (f"{sys.executable} -m apgcn report {kept} --only table2 2>&-", 0),
        (f"{sys.executable} -m apgcn status nowhere 2>/dev/full", 2),
        (f"PYTHONIOENCODING=ascii {sys.executable} -m apgcn report {kept} --only table2", 0),
    ):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (status, ""), line


def is_gone(group):
    """Whether no process of a group is left; a look takes a moment."""
    time.sleep(0.05)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until_training(folder):
    end = time.monotonic() + 60
    while not (folder.exists() and Store(folder).batches_in_training):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_is_one_sentence_and_loses_nothing(folder, ending, workers):
    process = subprocess.Popen(
        [
            *command("reproduce", "table2", "--models", "apgcn", "--datasets", "cora", "--store", folder),
            "--workers",
            str(workers),
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until_training(folder)
    if ending == signal.SIGINT:
        os.killpg(process.pid, ending)  # a terminal's Ctrl-C reaches the workers too
    else:
        process.send_signal(ending)
    stderr = process.communicate(timeout=30)[1]
    assert shell_status(process) == 130
    assert stderr.splitlines() == [
        "0/100 runs: run batches to train: 13",
        "0 of 100 runs are stored; run the same command again to continue.",
        "apgcn: interrupted.",
    ]
    assert Store(folder).batches_in_training == []
    assert len(Store(folder).planned_batches) == 13  # 100 runs in batches of at most 8
