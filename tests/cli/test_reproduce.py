"""The commands reproduce, status, report and tune: what they print, what they keep, what a mistake costs."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.fake_records import keep
from helpers.processes import shell_status

from apgcn.benchmark.config import RunConfig
from apgcn.benchmark.store import Store
from apgcn.cli import run
from apgcn.data.splits import VALIDATION_SEEDS
from apgcn.models.registry import MODELS


@pytest.fixture(autouse=True)
def few_epochs(monkeypatch):
    """Three epochs of a tiny network: the commands are tested here, not the training."""
    from apgcn.benchmark import config

    def quick(model):
        return {"max_epochs": 3} | ({"hidden_channels": 4} if "hidden_channels" in config.defaults(model) else {})

    whole = config.preset_config
    monkeypatch.setattr(
        config,
        "preset_config",
        lambda dataset, *, model, **changes: whole(dataset, model=model, **{**quick(model), **changes}),
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
    assert printed.err == "0/2 runs: packs to train: 1\n2/2 runs: cora apgcn, pack of 2\n"
    records = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    assert [record["command"] for record in records] == [
        "apgcn reproduce table2 --models apgcn --datasets cora --runs 2"
    ] * 2


def test_waiting_for_another_process_does_not_fill_the_log(folder, capsys):
    """What is left is looked at twice a second; it is said once."""
    from apgcn.benchmark.records import PlannedBatch
    from apgcn.cli.progress import watching

    pack = PlannedBatch.of(RunConfig.from_preset("cora", "apgcn").first_runs(3), "cpu")
    with watching(3, lambda: 3) as watch:
        for _ in range(5):
            watch.planned([pack])
            watch.waiting()
    assert capsys.readouterr().err == "0/3 runs: packs to train: 1\n"


def test_reproduce_again_trains_nothing(folder, capsys):
    assert reproduce("table2", folder, "--runs", "2", "--models", "apgcn,gcn") == 0
    lines = (folder / "runs.jsonl").read_bytes()
    capsys.readouterr()
    assert reproduce("figure2", folder, "--runs", "2", "--models", "apgcn,gcn", "--json") == 0  # needs the same runs
    printed = capsys.readouterr()
    assert (folder / "runs.jsonl").read_bytes() == lines
    assert printed.err == ""
    rows = json.loads(printed.out)["experiments"]["figure2"]
    assert [(row["dataset"], row["model"], row["runs"]) for row in rows] == [("cora", "apgcn", 2)]  # a GCN never halts


def test_reproduce_all_does_every_experiment(folder, capsys, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.timing.TIMED", 2)
    monkeypatch.setattr("apgcn.benchmark.penalty_sweep.PENALTIES", (0.005, 0.1))
    monkeypatch.setattr("apgcn.benchmark.figure4.LABELS", (5, 20))
    models = "apgcn,gcn,btfp,ap-appnp"  # two that halt, two with weights of another kind or none
    assert reproduce("all", folder, "--runs", "1", "--models", models, "--json") == 0
    found = json.loads(capsys.readouterr().out)["experiments"]
    assert {name: len(rows) for name, rows in found.items()} == {
        "table1": 1, "table2": 4, "figure2": 2, "table4": 2, "table5": 3, "figure3": 4, "figure4": 8,
        "freezing": 4,
    }  # fmt: skip
    assert len(Store(folder).records) == 2 * 3 + 2 * 2 + 2  # first settings, fewer labels; another penalty, frozen


def test_reproduce_trains_every_model(folder, capsys):
    assert reproduce("table2", folder, "--runs", "1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["experiments"]["table2"]
    assert {row["model"]: row["runs"] for row in rows} == dict.fromkeys(MODELS, 1)
    kinds = {row["model"]: row["settings_kind"] for row in rows}
    assert (kinds["apgcn"], kinds["gcn"], kinds["ap-appnp"]) == ("paper", "published", "tuned")


def test_reproduce_with_one_kind_of_settings_leaves_out_who_has_none(folder, capsys):
    options = ("--runs", "1", "--models", "apgcn,gcn", "--settings", "paper", "--json")
    assert reproduce("table2", folder, *options) == 0
    rows = json.loads(capsys.readouterr().out)["experiments"]["table2"]
    assert [row["model"] for row in rows] == ["apgcn"]  # nobody's paper has a GCN with other settings for cora
    assert next(iter(Store(folder).records.values())).command.endswith("--settings paper --runs 1")


def test_models_are_listed_for_people_and_programs(capsys):
    assert run(["models"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "AP-GCN",
        "apgcn, paper and published settings",
        "Kipf and Welling",
        "heads=8, hidden_channels=8, dropout=0.6, l2=0.01",
        "from: PPNP paper",
    ):
        assert part in shown
    assert run(["models", "gcn", "--dataset", "amazon_photo", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    (gcn,) = listed["models"]
    assert (listed["dataset"], gcn["name"], gcn["usual"]) == ("amazon_photo", "gcn", "paper")
    assert gcn["weights"] == 745 * 64 + 64 + 64 * 8 + 8
    assert gcn["settings"]["published"]["l2"]["value"] == 0.02
    assert "PPNP paper" in gcn["settings"]["published"]["l2"]["source"]
    assert gcn["settings"]["paper"]["l2"] == {"value": 0.0, "source": "AP-GCN paper, Section V"}


def test_tune_searches_what_is_asked_for(folder, capsys):
    options = ("--store", str(folder), "--trials", "2", "--runs", "1", "--json")
    assert run(["tune", "cora", "--model", "arma", "--search", "stacks,depth", *options]) == 0
    first, *others = sorted(json.loads(capsys.readouterr().out)["trials"], key=lambda trial: trial["trial"])
    changed = {
        name for other in others for name in first["settings"] if other["settings"][name] != first["settings"][name]
    }
    assert changed
    assert changed <= {"stacks", "depth"}
    assert run(["tune", "cora", "--model", "gcn", "--search", "stacks", *options]) == 2
    assert "unknown setting to search for gcn 'stacks'; known: l2, dropout, edge_dropout." in capsys.readouterr().err


def test_status_says_what_is_done_and_left(folder, capsys):
    from apgcn.benchmark.scheduler import packs_for

    run_config = RunConfig.from_preset("cora", "apgcn")
    packs_for(Store(folder), run_config.first_runs(6), device="cpu", most=lambda run_config: 3)
    assert run(["status", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "0 of 6 runs are done, 6 are left." in shown
    assert "shows when a pack of every model is done" in shown
    keep(Store(folder), run_config, [0.8] * 3)
    assert run(["status", str(folder), "--json"]) == 0
    now = json.loads(capsys.readouterr().out)
    assert (now["planned"], now["done"], now["left"], now["in_training"]) == (6, 3, 3, 0)
    assert [(part["dataset"], part["seed_set"]) for part in now["parts"]] == [("cora", "test")]
    assert now["seconds_left"] == pytest.approx(6)
    assert run(["status", str(folder)]) == 0
    assert "about 6.0 s of work are left" in capsys.readouterr().out


def test_tune_keeps_its_records_in_a_folder_of_its_own_unless_told_otherwise(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["tune", "cora", "--model", "apgcn", "--trials", "1", "--runs", "1"]) == 0
    assert len(Store(tmp_path / "tuning").records) == 2
    assert "report tuning --html report.html" in capsys.readouterr().out


def test_status_of_a_finished_store_says_so(folder, capsys):
    keep(Store(folder), RunConfig.from_preset("cora", "apgcn"), [0.8] * 3)
    assert run(["status", str(folder)]) == 0
    assert "all 3 runs that were planned are done." in capsys.readouterr().out


@pytest.fixture
def kept(folder):
    keep(Store(folder), RunConfig.from_preset("cora_ml", "apgcn"), [0.85, 0.86])
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
    found = json.loads(capsys.readouterr().out)["experiments"]
    assert list(found) == ["table2"]


def test_report_prints_for_people(kept, capsys):
    assert run(["report", kept, "--only", "table2"]) == 0
    shown = capsys.readouterr().out
    assert "85.50 ± 0.50" in shown
    assert "Not run here: 37 more of the paper's numbers." in shown
    assert "Table 5" not in shown


def test_tune_looks_at_validation_seeds_only(folder, capsys):
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
    assert papers["settings"]["penalty"] == 0.005
    for trial in found["trials"]:
        assert 1e-4 <= trial["settings"]["penalty"] <= 0.1
        assert 2 <= trial["settings"]["max_steps"] <= 20


def test_tune_goes_on_where_it_stopped_and_finds_the_same(folder, tmp_path, capsys):
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
    assert "none: where the search began" in shown
    assert "train cora" in shown
    assert run(["report", str(folder), "--only", "tuning"]) == 0
    assert "Tuning: settings tried on the validation seeds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["reproduce", "table7"], "unknown experiment 'table7'"),
        (["reproduce", "table2", "--models", "gnc"], "unknown model 'gnc'"),
        (["reproduce", "table2", "--datasets", "cora,,koala"], "unknown dataset 'koala'"),
        (["reproduce", "table2", "--datasets", ""], "there must be at least one dataset, got none."),
        (["reproduce", "table3", "--datasets", "cora"], "table3 shows amazon_computers, amazon_photo, not cora"),
        (
            ["reproduce", "figure3", "--models", "gcn,gat"],
            "figure3 is about models that halt, apgcn, ap-appnp, ap-arma",
        ),
        (["reproduce", "table5", "--models", "btfp"], "table5 is about models that are trained, apgcn, vgcn"),
        (["reproduce", "table2", "--runs", "0"], "runs must be >= 1, got 0."),
        (["reproduce", "table2", "--workers", "0"], "workers must be >= 1, got 0."),
        (["reproduce", "table2", "--device", "gpu"], "device must be cpu, cuda or cuda:N, got 'gpu'."),
        (["tune", "coral"], "unknown dataset 'coral'; did you mean 'cora'?"),
        (["tune", "cora", "--trials", "0"], "trials must be >= 1, got 0."),
        (["tune", "cora", "--model", "x"], "unknown model 'x'"),
        (["tune", "cora", "--search", ","], "there must be at least one setting to search, got ','."),
    ],
)
def test_a_mistake_costs_one_sentence(arguments, sentence, folder, capsys):
    assert run([*arguments, "--store", str(folder)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"apgcn: {sentence}")
    assert printed.err.count("\n") == 1
    assert not folder.exists()


def test_a_store_that_is_none_is_said(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    keep(Store(tmp_path / "inner"), RunConfig.from_preset("cora", "apgcn"), [0.8])
    for command in ("status", "report"):
        for place, sentence in (
            (tmp_path, f"must be a store, but has no records; try {tmp_path / 'inner'}."),
            (tmp_path / "inner" / "steps", "apgcn reproduce WHAT --store FOLDER fills one."),
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


def test_what_has_no_records_is_said_when_it_is_asked_for(kept, capsys):
    assert run(["report", kept, "--only", "table3"]) == 0
    assert f"nothing recorded: apgcn reproduce table3 --store {kept}" in capsys.readouterr().out


def test_two_forms_at_once_are_refused(kept, capsys):
    assert run(["report", kept, "--csv", "--latex"]) == 2
    assert "only one of --markdown, --latex, --csv and --json" in capsys.readouterr().err


def test_at_least_one_table_must_be_named(kept, capsys):
    assert run(["report", kept, "--only", " , "]) == 2
    assert "--only must name at least one of table1, table2" in capsys.readouterr().err


def test_a_table_that_does_not_exist_is_said(kept, capsys):
    assert run(["report", kept, "--only", "table2,table9"]) == 2
    assert "unknown table or figure 'table9'" in capsys.readouterr().err


def test_a_torn_store_is_refused_with_its_line(kept, folder, capsys):
    lines = (folder / "runs.jsonl").read_text().splitlines()
    (folder / "runs.jsonl").write_text(f"{lines[0][:50]}\n{lines[1]}\n")
    for command in ("status", "report"):
        assert run([command, kept]) == 2
        assert "line 1 of" in capsys.readouterr().err
    assert reproduce("table2", folder, "--runs", "1") == 2


def test_a_record_that_was_edited_is_refused(kept, folder, capsys):
    text = (folder / "runs.jsonl").read_text()
    (folder / "runs.jsonl").write_text(text.replace('"hidden_channels": 4', '"hidden_channels": 5', 1))
    assert run(["status", kept]) == 2
    assert "line 1 of" in (said := capsys.readouterr().err)
    assert "key must be that of the other fields" in said


def command(*arguments):
    return [sys.executable, "-m", "apgcn", *map(str, arguments)]


def test_after_nohup_a_terminal_that_is_gone_ends_nothing(folder):
    waiting = command("reproduce", "table2", "--datasets", "cora", "--store", folder)
    code = f"import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); os.execv({waiting[0]!r}, {waiting!r})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    _until_training(folder)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    process.wait()


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.01, 0.03])
def test_one_who_cannot_wait_may_ask_twice(folder, pause):
    """Ctrl-C, and at once the terminal is closed: the second signal must not keep the workers alive."""
    process = subprocess.Popen(
        command("reproduce", "table2", "--datasets", "cora", "--store", folder, "--workers", "2"),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _until_training(folder)
    time.sleep(2)  # the workers are at work
    for ending in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        process.send_signal(ending)
        time.sleep(pause)
    process.wait(20)
    assert any(_is_gone(process.pid) for _ in range(100)), "some of its processes are left"


def test_closed_or_full_streams_lose_nothing(kept):
    for line, status in (
        (f"{sys.executable} -m apgcn status {kept} >&-", 0),
        (f"{sys.executable} -m apgcn report {kept} --only table2 2>&-", 0),
        (f"{sys.executable} -m apgcn status nowhere 2>/dev/full", 2),
        (f"PYTHONIOENCODING=ascii {sys.executable} -m apgcn report {kept} --only table2", 0),
    ):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (status, ""), line


def _is_gone(group):
    """Whether no process of a group is left; a look takes a moment."""
    time.sleep(0.05)
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def _until_training(folder):
    end = time.monotonic() + 60
    while not (folder.exists() and Store(folder).in_training):
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
    _until_training(folder)
    if ending == signal.SIGINT:
        os.killpg(process.pid, ending)  # a terminal's Ctrl-C reaches the workers too
    else:
        process.send_signal(ending)
    said = process.communicate(timeout=30)[1]
    assert shell_status(process) == 130
    assert said.splitlines() == [
        "0/100 runs: packs to train: 13",
        "0 of 100 runs are kept; the same command goes on with the rest.",
        "apgcn: interrupted.",
    ]
    assert Store(folder).in_training == []
    assert len(Store(folder).planned) == 13  # 100 runs in packs of at most 8
