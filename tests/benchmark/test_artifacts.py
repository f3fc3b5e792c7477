"""What tables and figures say, computed from made-up records whose answers are known."""

import dataclasses
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.fake_records import keep, made_record
from scipy import stats

from apgcn._utils.significance import bootstrap_half_width, split_half_width
from apgcn.benchmark import (
    density,
    figure2,
    figure3,
    figure4,
    freezing,
    penalty_sweep,
    table1,
    table2,
    table3,
    table4,
    table5,
)
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.config import RunConfig, Scope, group_by_config
from apgcn.benchmark.progress import standing
from apgcn.benchmark.published import GRAPHS
from apgcn.benchmark.records import TimingRecord
from apgcn.benchmark.registry import EXPERIMENTS, chosen, everything
from apgcn.benchmark.store import Store
from apgcn.data.splits import TEST_SEEDS
from apgcn.errors import BrokenFile, InvalidInput, UnknownName
from apgcn.models.registry import MODELS


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


# --- keys and plans ---


def test_the_protocol_is_twenty_splits_with_five_initialisations():
    keys = RunConfig.from_preset("cora_ml", "apgcn").first_runs(100)
    assert len({key.text for key in keys}) == 100
    assert [key.split for key in keys[:20]] == list(TEST_SEEDS)
    assert {key.init for key in keys} == {0, 1, 2, 3, 4}
    assert all(sum(key.split == seed for key in keys) == 5 for seed in TEST_SEEDS)


def test_every_setting_is_part_of_the_key():
    usual = RunConfig.from_preset("cora_ml", "apgcn")
    for name, value in usual.hyperparameters:
        other = {"monitor": "training", "early_stop_mode": "loss"}.get(name) or (
            value / 2 if value else 0.25 if isinstance(value, float) else 1
        )
        other = type(value)(other)
        assert RunConfig.from_preset("cora_ml", "apgcn", **{name: other}).text != usual.text, name


def test_the_papers_keys_stay_as_they_are():
    """They are in stores that people have: a default that changes would orphan their records."""
    texts = {name: RunConfig.from_preset(name, "apgcn").text for name in ("cora_ml", "citeseer", "amazon_photo")}
    assert texts == {
        "cora_ml": "cora_ml/apgcn/defaults/labels=20",
        "citeseer": "citeseer/apgcn/penalty=0.001/labels=20",
        "amazon_photo": "amazon_photo/apgcn/"
        'l2=0.0,penalty=0.05,z0_dropout=0.5,update_dropout=0.5,monitor="training"/labels=20',
    }


def test_experiments_share_their_runs():
    """Table 4 and Figure 3 meet the runs of Tables 2 and 3 at the paper's penalty; Figure 2 needs no others."""
    models = ("apgcn",)
    plans = {
        name: set(experiment.plan(Scope(models, experiment.graphs, 20))) for name, experiment in EXPERIMENTS.items()
    }
    assert plans["figure2"] == plans["table2"] | plans["table3"]
    assert plans["figure2"] < plans["table4"]
    assert plans["figure3"] < plans["table4"]
    assert len(plans["table4"]) == 20 * 6 * len(penalty_sweep.PENALTIES)
    assert len(plans["figure4"] & plans["table2"]) == 20
    assert plans["table1"] == plans["table5"] == set()


def test_all_means_every_experiment_with_the_papers_graphs():
    asked = {experiment.name: scope for experiment, scope in chosen("all")}
    assert list(asked) == list(EXPERIMENTS)
    assert asked["table2"].datasets == GRAPHS[:4]
    assert asked["table2"].runs == 100
    assert asked["table2"].models == tuple(MODELS)


def test_all_with_some_graphs_leaves_out_what_does_not_show_them():
    asked = [experiment.name for experiment, _ in chosen("all", datasets=["amazon_photo"])]
    assert "table2" not in asked
    assert "table3" in asked


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        ({"name": "tabel2"}, UnknownName, "unknown experiment 'tabel2'; did you mean 'table2'?"),
        ({"name": "table2", "models": ["apgcm"]}, UnknownName, "unknown model 'apgcm'; did you mean 'apgcn'?"),
        ({"name": "table2", "datasets": ["coraml"]}, UnknownName, "unknown dataset 'coraml'"),
        ({"name": "table3", "datasets": ["cora_ml"]}, InvalidInput, "table3 shows amazon_computers, amazon_photo, not"),
        ({"name": "table2", "datasets": []}, InvalidInput, "at least one dataset"),
        ({"name": "table2", "models": []}, InvalidInput, "at least one model"),
    ],
)
def test_what_does_not_exist_is_said(words, error, sentence):
    with pytest.raises(error, match=sentence.replace("?", r"\?")):
        chosen(**words)


def test_numbers_of_other_libraries_are_pythons_in_a_key():
    usual = RunConfig.from_preset("cora", "apgcn", max_steps=5, penalty=0.25)
    for five, quarter in ((np.int64(5), np.float32(0.25)), (np.int32(5), Fraction(1, 4))):
        other = RunConfig.from_preset("cora", "apgcn", max_steps=five, penalty=quarter)
        assert (other, other.text) == (usual, usual.text)


# --- means ---


def test_a_mean_is_in_percent_with_both_intervals(store):
    accuracies = np.random.default_rng(0).normal(0.85, 0.02, 40).tolist()
    records = keep(store, RunConfig.from_preset("cora_ml", "apgcn"), accuracies)
    mean = Summary.of(records)
    assert mean.runs == 40
    assert mean.accuracy == pytest.approx(100 * np.mean(accuracies))
    assert mean.interval == pytest.approx(100 * bootstrap_half_width(accuracies))
    splits = [record.split for record in records]
    assert mean.split_interval == pytest.approx(100 * split_half_width(accuracies, splits))


def test_a_mean_of_nothing_is_none():
    mean = Summary.of([])
    assert (mean.runs, mean.accuracy, mean.interval, mean.steps) == (0, None, None, None)


def test_runs_that_diverged_are_counted(store):
    records = keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.1, 0.2], best_epoch=0)
    assert Summary.of(records).diverged == 2


# --- tables ---


def test_table_2_puts_ours_beside_the_papers(store):
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.85, 0.86, 0.855, 0.865])
    artifact = table2.content(store, Scope(("apgcn", "appnp"), ("cora_ml", "cora"), None))
    appnp, ours = artifact.table.rows  # in the paper's order; cora is not in the paper and was not run
    assert (ours["dataset"], ours["model"], ours["runs"]) == ("cora_ml", "apgcn", 4)
    assert ours["accuracy"] == pytest.approx(85.75)
    assert ours["difference"] == pytest.approx(85.75 - 85.71)
    assert ours["verdict"] == "agrees"
    assert (appnp["runs"], appnp["accuracy"], appnp["verdict"]) == (0, None, "not run")
    assert artifact.table.cells[0] == [
        "Cora-ML", "APPNP", "published", "0", "–", "–", "85.09 ± 0.25 (copied)", "–", "not run"
    ]  # fmt: skip
    assert artifact.table.cells[1][6] == "85.71 ± 0.22**"
    assert artifact.heading == "Table 2: accuracy on citation and co-author graphs"
    assert [record.test_accuracy for record in artifact.records] == [0.85, 0.86, 0.855, 0.865]


def test_only_the_runs_that_were_asked_for_count(store):
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8] * 20 + [0.9] * 5)
    (row,) = table2.content(store, Scope(("apgcn",), ("cora_ml",), 20)).table.rows
    assert (row["runs"], row["accuracy"]) == (20, pytest.approx(80))
    (row,) = table2.content(store, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert (row["runs"], row["accuracy"]) == (25, pytest.approx(82))


def test_records_with_other_settings_do_not_count(store):
    keep(store, RunConfig.from_preset("cora_ml", "apgcn", hidden_channels=8), [0.5, 0.5])
    (row,) = table2.content(store, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert row["runs"] == 0


def test_stars_go_to_the_best_model_where_it_differs_from_the_second(store):
    random = np.random.default_rng(0)
    luck = random.normal(0, 0.05, 40)  # of the runs, which both models share
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), (0.80 + luck + random.normal(0, 0.005, 40)).tolist())
    keep(store, RunConfig.from_preset("cora_ml", "gcn"), (0.81 + luck + random.normal(0, 0.005, 40)).tolist())
    theirs, ours = table2.content(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert (theirs["model"], theirs["stars"]) == ("gcn", "**")
    assert (ours["model"], ours["stars"]) == ("apgcn", "")


def test_models_without_shared_runs_get_no_stars(store):
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.9])
    keep(store, RunConfig.from_preset("cora_ml", "gcn"), [0.7])
    rows = table2.content(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert [row["stars"] for row in rows] == ["", ""]


def test_table_1_counts_the_graphs(store, cora):
    scope = Scope((), ("cora",), None)
    table1.measure(store, scope, device="cpu", command="a command")
    (row,) = table1.content(store, scope).table.rows
    assert (row["nodes"], row["edges"], row["classes"]) == (cora.num_nodes, cora.num_directed_edges // 2, 7)
    assert row["degree"] == pytest.approx(cora.adjacency.sum(axis=1).mean())
    assert row["verdict"] == "not in the paper"


def test_table_1_agrees_with_the_paper(store, benchmark_graph):
    benchmark_graph("citeseer")
    scope = Scope((), ("citeseer",), None)
    table1.measure(store, scope, device="cpu", command="")
    (row,) = table1.content(store, scope).table.rows
    assert row["verdict"] == "same counts"


@pytest.fixture
def swept(store):
    """Accuracy has its peak at 0.001 on validation nodes, at 0.005 on test nodes; K falls."""
    test = [0.80, 0.81, 0.82, 0.85, 0.84, 0.80, 0.79]
    validation = [0.80, 0.81, 0.85, 0.84, 0.83, 0.80, 0.79]
    for place, penalty in enumerate(penalty_sweep.PENALTIES):
        keep(
            store,
            RunConfig.from_preset("cora_ml", "apgcn", penalty=penalty),
            [test[place] - 0.001, test[place] + 0.001],
            steps=np.full((2, 5), 9 - place) + np.arange(5) % 2,
            validation_accuracy=validation[place],
        )
    return store


def test_table_4_chooses_the_penalty_on_validation_nodes(swept):
    (row,) = table4.content(swept, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert row["penalty"] == 0.001
    assert row["drop"] == pytest.approx(6.0)
    assert row["steps"] == pytest.approx(7.4)
    assert row["steps_at_paper"] == pytest.approx(6.4)
    assert row["verdict"] == "another penalty, the paper's is 1.00 behind on validation nodes"
    assert row["drop_interval"] == pytest.approx(0, abs=1e-9)  # run by run the difference is the same
    assert row["drop_difference"] == pytest.approx(6.0 - 4.65)


def test_means_of_a_sweep_are_over_the_same_runs(swept):
    """The paper's penalty has more runs, from Table 2; they must not tilt the comparison."""
    keep(swept, RunConfig.from_preset("cora_ml", "apgcn"), [0.849, 0.851] + [0.2] * 30)
    (row,) = table4.content(swept, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert row["runs"] == 2
    assert row["drop"] == pytest.approx(6.0)


def test_a_sweep_that_was_interrupted_shows_what_can_be_compared(store):
    """One penalty has four runs, one has two of them, and one only others: packs end in any order."""
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8, 0.8, 0.8, 0.9])
    keep(store, RunConfig.from_preset("cora_ml", "apgcn", penalty=0.1), [0.7, 0.7])
    other = RunConfig.from_preset("cora_ml", "apgcn", penalty=0.01).first_runs(6)[5]
    store._runs.append([made_record(other, 0.5, [3])])
    scope = Scope(("apgcn",), ("cora_ml",), None)
    (row,) = table4.content(store, scope).table.rows
    assert (row["runs"], row["penalties"], row["drop"]) == (2, 2, pytest.approx(10))
    assert "only 2 of 7 penalties were run" in row["verdict"]
    artifact = figure3.content(store, scope)
    assert [row["penalty"] for row in artifact.table.rows] == [0.005, 0.1]
    assert artifact.panels == ()  # two points are no curve
    assert len(artifact.records) == 4


def test_a_choice_that_validation_nodes_hardly_make_is_called_so():
    means = {
        penalty: dataclasses.replace(Summary.of([]), validation_accuracy=accuracy, validation_interval=0.5)
        for penalty, accuracy in ((0.005, 84.0), (0.01, 83.9), (0.1, 70.0))
    }
    verdict = table4._verdict(0.005, means, 0.005)
    assert verdict.startswith("the same penalty; 1 other within its interval on validation nodes")


def test_one_penalty_is_no_sweep(store):
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8, 0.9])
    scope = Scope(("apgcn",), ("cora_ml",), None)
    assert table4.content(store, scope).table.rows == ()
    assert figure3.content(store, scope).table.rows == ()


def test_figure_3_shows_steps_falling_with_the_penalty(swept):
    artifact = figure3.content(swept, Scope(("apgcn",), ("cora_ml",), None))
    assert [row["penalty"] for row in artifact.table.rows] == list(penalty_sweep.PENALTIES)
    smooth, accuracy, steps, work = artifact.panels
    assert list(work.series[0].x) == pytest.approx([34, 44, 54, 64, 74, 84, 94])
    assert list(work.series[0].y) == pytest.approx([79, 80, 84, 85, 82, 81, 80])
    assert steps.series[0].x == penalty_sweep.PENALTIES
    assert list(steps.series[0].y) == pytest.approx([9.4, 8.4, 7.4, 6.4, 5.4, 4.4, 3.4])
    assert list(accuracy.series[0].y) == pytest.approx([80, 81, 82, 85, 84, 80, 79])
    assert accuracy.log_x
    assert len(smooth.series) == 7


def test_figure_2_counts_whole_steps_and_smooths_averages(store):
    steps = np.array([[2, 3, 3, 8], [2, 3, 5, 8]])
    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8, 0.9], steps=steps)
    artifact = figure2.content(store, Scope(("apgcn",), ("cora_ml", "pubmed"), None))
    together, panel = artifact.panels
    counted, smooth = panel.series
    assert counted.kind == "bars"
    assert dict(zip(counted.x, counted.y, strict=True)) == {
        1: 0, 2: 0.25, 3: 0.375, 4: 0, 5: 0.125, 6: 0, 7: 0, 8: 0.25, 9: 0, 10: 0
    }  # fmt: skip
    expected = stats.gaussian_kde([2, 3, 4, 8])(smooth.x)
    assert list(smooth.y) == pytest.approx(expected, abs=1e-5)
    assert together.series[0].y == smooth.y
    (row,) = artifact.table.rows
    assert (row["mode"], row["mode_share"], row["paper_steps"]) == (3, 0.375, 9.31)


def test_a_density_is_scipys_where_it_is_wide_and_never_a_spike():
    random = np.random.default_rng(0)
    grid = np.linspace(0, 11, 50)
    wide = random.normal(5, 2, 40)
    assert density.kernel_density(wide, grid) == pytest.approx(stats.gaussian_kde(wide)(grid))
    narrow = random.normal(10, 0.001, 40)
    assert density.kernel_density(narrow, grid) == pytest.approx(stats.norm(10, 0.15).pdf(grid), abs=0.01)


def test_missing_steps_are_said(store):
    (record,) = keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8])
    (store.folder / record.steps_file).unlink()
    with pytest.raises(BrokenFile, match="must hold the steps of a pack"):
        store.mean_steps([record])


def test_steps_are_never_looked_for_outside_the_store(store, tmp_path):
    key = RunConfig.from_preset("cora_ml", "apgcn").first_runs(1)[0]
    np.savez(tmp_path.parent / "secret.npz", steps=np.ones((1, 3)))
    with pytest.raises(BrokenFile, match="steps"):
        store.mean_steps([made_record(key, 0.8, [1], file="../../secret.npz")])


def test_freezing_is_compared_run_by_run(store):
    """On the splits of three runs it gains 1, 2 and 3 points; a run that only one of both has does not count."""
    for frozen, accuracies in ((False, [0.80, 0.70, 0.60, 0.10]), (True, [0.81, 0.72, 0.63])):
        keep(store, RunConfig.from_preset("cora_ml", "apgcn", freeze_halted=frozen), accuracies)
    changing, frozen = freezing.content(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert (changing["frozen"], changing["runs"], changing["difference"]) == (False, 3, None)
    assert (frozen["frozen"], frozen["runs"]) == (True, 3)
    assert frozen["difference"] == pytest.approx(2.0)
    assert frozen["difference_interval"] == pytest.approx(split_half_width([1, 2, 3], TEST_SEEDS[:3]))
    assert frozen["accuracy"] == pytest.approx(72.0)


def test_figure_4_follows_the_number_of_labels(store):
    for labels, accuracy in ((5, 0.7), (20, 0.8), (60, 0.9)):
        steps = np.full((2, 4), 10 - labels // 10) - np.arange(4) % 2
        run_config = RunConfig.from_preset("cora_ml", "apgcn", train_per_class=labels)
        keep(store, run_config, [accuracy, accuracy], steps=steps)
    artifact = figure4.content(store, Scope(("apgcn", "appnp"), ("cora_ml",), None))
    accuracy, smooth = artifact.panels
    assert accuracy.series[0].name == "AP-GCN"
    assert list(accuracy.series[0].x) == [5, 20, 60]
    assert list(accuracy.series[0].y) == pytest.approx([70, 80, 90])
    assert [series.name for series in smooth.series] == ["5", "20", "60"]


def test_the_labels_of_figure_4_can_be_drawn(benchmark_graph):
    from apgcn.benchmark.worker import run_of

    benchmark_graph("cora_ml")
    for labels in figure4.LABELS:
        key = RunConfig.from_preset("cora_ml", "apgcn", train_per_class=labels).first_runs(1)[0]
        assert len(run_of(key).split.train) == 7 * labels


def test_table_5_times_an_epoch(store, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.timing.TIMED", 3)
    monkeypatch.setattr("apgcn.benchmark.timing.WARM_UP", 1)
    scope = Scope(("apgcn",), ("cora",), None)
    table5.measure(store, scope, device="cpu", command="apgcn reproduce table5")
    (record,) = store.timings.values()
    assert record.step_ms > 0
    assert record.epoch_low <= record.epoch_ms <= record.epoch_high
    assert record.epoch_ms == pytest.approx(record.step_ms + record.evaluation_ms, rel=0.5)
    table5.measure(store, scope, device="cpu", command="again")
    assert list(store.timings.values()) == [record]  # once per hardware
    (row,) = table5.content(store, scope).table.rows
    assert row["epoch_ms"] == record.epoch_ms
    assert TimingRecord.of_line(record.line) == record
    for wrong in ({"model": "gat"}, {"key": "foo"}, {"hardware": "abacus"}):
        with pytest.raises(InvalidInput, match="key must be that of the other fields"):
            TimingRecord.of_line({**record.line, **wrong})


def test_table_5_tells_kinds_of_settings_apart(store, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.timing.TIMED", 1)
    monkeypatch.setattr("apgcn.benchmark.timing.WARM_UP", 0)
    everything = Scope(("arma", "apgcn"), ("cora",), None)
    for kind in ("published", "paper"):  # AP-GCN's are the same
        table5.measure(store, replace(everything, kind=kind), device="cpu", command="")
    kinds = lambda scope: [row["settings_kind"] for row in table5.content(store, scope).table.rows]  # noqa: E731
    assert kinds(everything) == ["paper", "published", "paper"]  # AP-GCN comes first
    assert kinds(replace(everything, kind="paper")) == ["paper", "paper"]
    assert kinds(replace(everything, kind="published")) == ["published", "published"]
    assert kinds(replace(everything, kind="tuned")) == []


# --- standing ---


def test_standing_says_what_is_left_and_how_long_it_takes(store):
    from apgcn.benchmark.scheduler import packs_for

    run_config = RunConfig.from_preset("cora_ml", "apgcn")
    packs_for(store, run_config.first_runs(10), device="cpu", most=lambda run_config: 5)
    assert standing(store).seconds_left is None  # nothing to go by
    keep(store, run_config, [0.8] * 5)  # two seconds each
    now = standing(store)
    assert (now.planned, now.done, now.seconds_left, now.in_training) == (10, 5, pytest.approx(10), 0)
    claim = store.claim(store.planned[1])
    assert standing(store).in_training == 1
    claim.give_back()


def test_the_time_left_is_guessed_from_the_device_that_is_planned(store):
    from apgcn.benchmark.scheduler import packs_for

    run_config = RunConfig.from_preset("cora_ml", "apgcn")
    keep(store, run_config, [0.8, 0.8], device="cuda", seconds=1.0)
    packs_for(store, run_config.first_runs(4), device="cpu", most=lambda run_config: 5)
    assert standing(store).seconds_left is None  # what a GPU took says nothing of a CPU
    packs_for(store, run_config.first_runs(4), device="cuda", most=lambda run_config: 5)
    assert standing(store).seconds_left == pytest.approx(2)


def test_a_graph_never_trained_is_guessed_from_others_by_its_size(store):
    from apgcn.benchmark.scheduler import packs_for

    keep(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8])
    packs_for(store, RunConfig.from_preset("pubmed", "apgcn").first_runs(3), device="cpu", most=lambda run_config: 5)
    larger = (19717 + 2 * 44324) / (2810 + 2 * 7981)
    assert standing(store).seconds_left == pytest.approx(3 * 2 * larger)


def test_everything_shows_graphs_that_only_the_store_has(store):
    keep(store, RunConfig.from_preset("cora", "apgcn"), [0.8])
    scopes = {experiment.name: scope for experiment, scope in everything(store)}
    assert "cora" in scopes["table2"].datasets
    assert "cora" not in scopes["table3"].datasets


def test_conditions_are_gathered_in_order_and_once():
    first, second = (RunConfig.from_preset(name, "apgcn").first_runs(2) for name in ("cora", "cora_ml"))
    assert list(group_by_config([*first, *second, *first]).values()) == [first, second]


def test_rows_with_another_kind_of_settings_come_below_and_have_stars_of_their_own(store):
    luck = np.random.default_rng(0).normal(0, 0.02, 20)
    for model, kind, level in (
        ("gcn", "paper", 0.80), ("appnp", "paper", 0.82), ("gcn", "published", 0.86), ("appnp", "published", 0.84)
    ):  # fmt: skip
        keep(store, RunConfig.from_preset("amazon_photo", model, kind=kind), (level + luck).tolist())
    rows = table3.content(store, Scope(("gcn", "appnp"), ("amazon_photo",), None)).table.rows
    assert [(row["model"], row["settings_kind"], row["stars"]) for row in rows] == [
        ("gcn", "paper", ""), ("appnp", "paper", "**"), ("gcn", "published", "**"), ("appnp", "published", "")
    ]  # fmt: skip
    only = table3.content(store, Scope(("gcn", "appnp"), ("amazon_photo",), 20, "published")).table.rows
    assert [row["settings_kind"] for row in only] == ["published", "published"]
    usual = table3.content(store, Scope(("gcn", "appnp"), ("amazon_photo",), 20)).table.rows
    assert [row["settings_kind"] for row in usual] == ["paper", "paper"]
