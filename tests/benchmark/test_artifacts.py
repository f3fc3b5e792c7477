"""Tables and figures, computed from fake records with known results."""

import dataclasses
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from helpers.fake_records import add_fake_records, fake_record
from scipy import stats

from apgcn._utils.significance import aligned_friedman, bootstrap_half_width, cluster_bootstrap_half_width
from apgcn.benchmark import (
    ablation,
    accuracy_tables,
    figure2,
    figure3,
    figure4,
    freezing,
    penalty_sweep,
    table1,
    table4,
    table5,
)
from apgcn.benchmark.aggregate import Summary
from apgcn.benchmark.config import RunConfig, Scope, group_by_config
from apgcn.benchmark.formatting import treatment, verdict
from apgcn.benchmark.progress import graph_size, relative_time, store_progress
from apgcn.benchmark.published import GRAPHS
from apgcn.benchmark.records import PlannedBatch, TimingRecord
from apgcn.benchmark.registry import ARTIFACTS, artifacts_in_store, select_artifacts
from apgcn.benchmark.store import Store
from apgcn.data.splits import TEST_SEEDS
from apgcn.errors import BrokenFile, InvalidInput, UnknownName
from apgcn.models.registry import MODELS
from apgcn.training.cuda_graphs import measure_ms


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


# --- keys and plans ---


def test_protocol_is_twenty_splits_with_five_initialisations():
    keys = RunConfig.from_preset("cora_ml", "apgcn").first_runs(100)
    assert len({key.text for key in keys}) == 100
    assert [key.split for key in keys[:20]] == list(TEST_SEEDS)
    assert {key.init for key in keys} == {0, 1, 2, 3, 4}
    assert all(sum(key.split == seed for key in keys) == 5 for seed in TEST_SEEDS)


def test_every_hyperparameter_is_part_of_the_key():
    config = RunConfig.from_preset("cora_ml", "apgcn")
    for name, value in config.hyperparameters:
        changed = {"monitor": "training", "early_stop_mode": "loss"}.get(name) or (
            value / 2 if value else 0.25 if isinstance(value, float) else 1
        )
        changed = type(value)(changed)
        assert RunConfig.from_preset("cora_ml", "apgcn", **{name: changed}).text != config.text, name


def test_keys_of_the_papers_runs_are_stable():
    """They are in stores that people have: a default that changes would orphan their records."""
    keys = {name: RunConfig.from_preset(name, "apgcn").text for name in ("cora_ml", "citeseer", "amazon_photo")}
    assert keys == {
        "cora_ml": "cora_ml/apgcn/defaults/train_per_class=20",
        "citeseer": "citeseer/apgcn/penalty=0.001/train_per_class=20",
        "amazon_photo": "amazon_photo/apgcn/"
        'l2=0.0,monitor="training",penalty=0.05,update_dropout=0.5,z0_dropout=0.5/train_per_class=20',
    }


def test_a_model_that_cannot_freeze_is_left_out_of_the_freezing_table(monkeypatch):
    monkeypatch.setattr(MODELS["ap-arma"], "supports_freezing", False)
    keys = freezing.plan(Scope(("apgcn", "ap-arma"), ("cora",), 2))
    assert {key.run_config.model for key in keys} == {"apgcn"}
    with pytest.raises(InvalidInput, match="freeze_halted must be False for AP-ARMA, got True"):
        MODELS["ap-arma"](freeze_halted=True)


def test_artifacts_share_their_runs():
    """Table 4 and Figure 3 meet the runs of Tables 2 and 3 at the paper's penalty; Figure 2 needs no others."""
    models = ("apgcn",)
    plans = {name: set(spec.plan(Scope(models, spec.graphs, 20))) for name, spec in ARTIFACTS.items()}
    assert plans["figure2"] == plans["table2"] | plans["table3"]
    assert plans["figure2"] < plans["table4"]
    assert plans["figure3"] < plans["table4"]
    assert len(plans["table4"]) == 20 * 6 * len(penalty_sweep.PENALTIES)
    assert len(plans["figure4"] & plans["table2"]) == 20
    assert plans["table1"] == plans["table5"] == set()


def test_all_selects_every_artifact_with_the_papers_graphs():
    selected = {spec.name: scope for spec, scope in select_artifacts("all")}
    assert list(selected) == list(ARTIFACTS)
    assert selected["table2"].datasets == GRAPHS[:4]
    assert selected["table2"].runs == 100
    assert selected["table2"].models == tuple(MODELS)


def test_all_with_some_graphs_omits_artifacts_without_them():
    selected = [spec.name for spec, _ in select_artifacts("all", datasets=["amazon_photo"])]
    assert "table2" not in selected
    assert "table3" in selected


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"name": "tabel2"}, UnknownName, "unknown table or figure 'tabel2'; did you mean 'table2'?"),
        ({"name": "table2", "models": ["apgcm"]}, UnknownName, "unknown model 'apgcm'; did you mean 'apgcn'?"),
        ({"name": "table2", "datasets": ["coraml"]}, UnknownName, "unknown dataset 'coraml'"),
        ({"name": "table3", "datasets": ["cora_ml"]}, InvalidInput, "table3 shows amazon_computers, amazon_photo, not"),
        ({"name": "table2", "datasets": []}, InvalidInput, "at least one dataset"),
        ({"name": "table2", "models": []}, InvalidInput, "at least one model"),
    ],
)
def test_unknown_names_are_rejected(arguments, error, sentence):
    with pytest.raises(error, match=sentence.replace("?", r"\?")):
        select_artifacts(**arguments)


def test_numpy_numbers_and_fractions_are_python_numbers_in_a_key():
    config = RunConfig.from_preset("cora", "apgcn", max_steps=5, penalty=0.25)
    for five, quarter in ((np.int64(5), np.float32(0.25)), (np.int32(5), Fraction(1, 4))):
        converted = RunConfig.from_preset("cora", "apgcn", max_steps=five, penalty=quarter)
        assert (converted, converted.text) == (config, config.text)


# --- summaries ---


def test_summary_is_in_percent_with_both_intervals(store):
    accuracies = np.random.default_rng(0).normal(0.85, 0.02, 40).tolist()
    records = add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), accuracies)
    summary = Summary.from_records(records)
    assert summary.runs == 40
    assert summary.accuracy == pytest.approx(100 * np.mean(accuracies))
    assert summary.interval == pytest.approx(100 * bootstrap_half_width(accuracies))
    splits = [record.split for record in records]
    assert summary.split_interval == pytest.approx(100 * cluster_bootstrap_half_width(accuracies, splits))


def test_summary_without_records_is_none():
    summary = Summary.from_records([])
    assert (summary.runs, summary.accuracy, summary.interval, summary.steps) == (0, None, None, None)


def test_diverged_runs_are_counted(store):
    records = add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.1, 0.2], best_epoch=0)
    assert Summary.from_records(records).diverged == 2


# --- tables ---


def test_table_2_has_our_accuracy_beside_the_papers(store):
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.85, 0.86, 0.855, 0.865])
    artifact = accuracy_tables.build_table2(store, Scope(("apgcn", "appnp"), ("cora_ml", "cora"), None))
    appnp, ours = artifact.table.rows  # in the paper's order; cora is not in the paper and was not run
    assert (ours["dataset"], ours["model"], ours["runs"]) == ("cora_ml", "apgcn", 4)
    assert ours["accuracy"] == pytest.approx(85.75)
    assert ours["difference"] == pytest.approx(85.75 - 85.71)
    assert ours["verdict"] == "within 1 point: +0.04 ± 0.55"
    assert (appnp["runs"], appnp["accuracy"], appnp["verdict"]) == (0, None, "not run")
    assert artifact.table.cells[0] == [
        "Cora-ML", "APPNP", "published", "0", "–", "–", "–", "PPNP code's stopping", "85.09 ± 0.25 (copied)", "not run"
    ]  # fmt: skip
    assert artifact.table.cells[1][8] == "85.71 ± 0.22**"
    assert artifact.heading == "Table 2: accuracy on citation and co-author graphs"
    assert [record.test_accuracy for record in artifact.records] == [0.85, 0.86, 0.855, 0.865]


def test_only_the_requested_runs_count(store):
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8] * 20 + [0.9] * 5)
    (row,) = accuracy_tables.build_table2(store, Scope(("apgcn",), ("cora_ml",), 20)).table.rows
    assert (row["runs"], row["accuracy"]) == (20, pytest.approx(80))
    (row,) = accuracy_tables.build_table2(store, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert (row["runs"], row["accuracy"]) == (25, pytest.approx(82))


def test_rows_have_their_paired_difference_to_the_best(store):
    """Over the runs that both have, where the means over all runs would show the other direction."""
    add_fake_records(store, RunConfig.from_preset("cora_ml", "gcn"), [0.80, 0.82, 0.84, 0.90, 0.99])
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.79, 0.80, 0.83, 0.90])
    gcn, apgcn = accuracy_tables.build_table2(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert (gcn["model"], gcn["to_best"]) == ("gcn", None)
    assert apgcn["to_best"] == pytest.approx(-(1 + 2 + 1 + 0) / 4)
    splits = [key.split for key in RunConfig.from_preset("cora_ml", "gcn").first_runs(4)]
    assert apgcn["to_best_interval"] == cluster_bootstrap_half_width([-1, -2, -1, 0], splits)


def test_verdict_needs_an_interval_within_one_point():
    """The interval of the difference is 0.5 with 0.3 and 0.4."""
    assert verdict(85.5, 0.3, 85.0, 0.4) == "within 1 point: +0.50 ± 0.50"
    assert verdict(85.0, 0.9, 85.3, 0.2).startswith("undecided: -0.30 ± 0.92")
    assert verdict(84.4, 0.3, 85.0, 0.4) == "lower: -0.60 ± 0.50"


def test_variants_have_rows_and_stars_of_their_own(store):
    """AP-GCN with the rule of the text is its default row on Cora-ML: it competes among the variants, shown once."""
    run_effect = np.random.default_rng(0).normal(0, 0.02, 20)
    for model, preset, level in (("gcn", None, 0.84), ("apgcn", None, 0.85), ("gcn", "protocol", 0.87)):
        config = RunConfig.from_preset("cora_ml", model, preset=preset)
        add_fake_records(store, config, (level + run_effect).tolist())
    rows = accuracy_tables.build_table2(store, Scope(("gcn", "apgcn"), ("cora_ml",), None)).table.rows
    assert [(row["model"], row["preset"], row["treatment"], row["stars"]) for row in rows] == [
        ("gcn", "published", "PPNP code's stopping", ""),
        ("apgcn", "paper", "text's stopping", "**"),
        ("gcn", "protocol", "text's stopping", "**"),
    ]


@pytest.mark.parametrize(
    ("model", "dataset", "overrides", "expected"),
    [
        ("apgcn", "cora_ml", {}, "text's stopping"),
        ("apgcn", "amazon_photo", {}, "script's stopping and dropouts"),
        ("apgcn", "amazon_photo", {"update_dropout": 0.0}, "script's stopping and z0_dropout"),
        ("gat", "amazon_photo", {"preset": "script"}, "script's stopping and dropouts"),
        ("vgcn", "cora_ml", {}, "regularised loss, patience 10, at most 200 epochs"),
        ("btfp", "cora_ml", {}, "not trained"),
    ],
)
def test_treatment_of_a_row(model, dataset, overrides, expected):
    assert treatment(RunConfig.from_preset(dataset, model, **overrides)) == expected


def test_records_with_other_hyperparameters_do_not_count(store):
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn", hidden_channels=8), [0.5, 0.5])
    (row,) = accuracy_tables.build_table2(store, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert row["runs"] == 0


def test_best_model_has_stars_if_it_differs_from_the_second(store):
    random = np.random.default_rng(0)
    run_effect = random.normal(0, 0.05, 40)  # of the runs, which both models share
    add_fake_records(
        store, RunConfig.from_preset("cora_ml", "apgcn"), (0.80 + run_effect + random.normal(0, 0.005, 40)).tolist()
    )
    add_fake_records(
        store, RunConfig.from_preset("cora_ml", "gcn"), (0.81 + run_effect + random.normal(0, 0.005, 40)).tolist()
    )
    gcn, apgcn = accuracy_tables.build_table2(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert (gcn["model"], gcn["stars"]) == ("gcn", "**")
    assert (apgcn["model"], apgcn["stars"]) == ("apgcn", "")


def test_stars_are_corrected_for_the_graphs_of_both_tables(store):
    """p = 0.03 to 0.045 on one graph: a star, until the same runs exist on a graph of the other table."""
    random = np.random.default_rng(40)
    accuracies = {"apgcn": 0.8 + random.normal(0, 0.01, 12), "gcn": 0.805 + random.normal(0, 0.01, 12)}
    assert 0.03 < aligned_friedman(*accuracies.values()).p_value < 0.045
    scope = Scope(("apgcn", "gcn"), ("cora_ml",), None)
    for dataset, stars in (("cora_ml", "*"), ("amazon_photo", "")):
        for model, values in accuracies.items():
            add_fake_records(store, RunConfig.from_preset(dataset, model), values.tolist())
        gcn, _ = accuracy_tables.build_table2(store, scope).table.rows
        assert (gcn["model"], gcn["stars"]) == ("gcn", stars)


def test_models_without_shared_runs_have_no_stars(store):
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.9])
    add_fake_records(store, RunConfig.from_preset("cora_ml", "gcn"), [0.7])
    rows = accuracy_tables.build_table2(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert [row["stars"] for row in rows] == ["", ""]


def test_table_1_counts_the_graphs(store, cora):
    scope = Scope((), ("cora",), None)
    table1.measure(store, scope, device="cpu", command="a command")
    (row,) = table1.build(store, scope).table.rows
    assert (row["nodes"], row["edges"], row["classes"]) == (cora.num_nodes, cora.num_directed_edges // 2, 7)
    assert row["degree"] == pytest.approx(cora.adjacency.sum(axis=1).mean())
    assert row["verdict"] == "not in the paper"


def test_table_1_agrees_with_the_paper(store, benchmark_graph):
    benchmark_graph("citeseer")
    scope = Scope((), ("citeseer",), None)
    table1.measure(store, scope, device="cpu", command="")
    (row,) = table1.build(store, scope).table.rows
    assert row["verdict"] == "same counts"


@pytest.fixture
def penalty_store(store):
    """A store in which accuracy is highest at 0.001 on validation nodes, at 0.005 on test nodes, and K decreases."""
    test = [0.80, 0.81, 0.82, 0.85, 0.84, 0.80, 0.79]
    validation = [0.80, 0.81, 0.85, 0.84, 0.83, 0.80, 0.79]
    for index, penalty in enumerate(penalty_sweep.PENALTIES):
        add_fake_records(
            store,
            RunConfig.from_preset("cora_ml", "apgcn", penalty=penalty),
            [test[index] - 0.001, test[index] + 0.001],
            steps=np.full((2, 5), 9 - index) + np.arange(5) % 2,
            validation_accuracy=validation[index],
        )
    return store


def test_table_4_chooses_the_penalty_on_validation_nodes(penalty_store):
    (row,) = table4.build(penalty_store, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert row["penalty"] == 0.001
    assert row["drop"] == pytest.approx(6.0)
    assert row["steps"] == pytest.approx(7.4)
    assert row["steps_at_paper"] == pytest.approx(6.4)
    assert row["verdict"] == "another penalty, the paper's is 1.00 behind on validation nodes"
    assert row["drop_interval"] == pytest.approx(0, abs=1e-9)  # run by run the difference is the same
    assert row["drop_difference"] == pytest.approx(6.0 - 4.65)


def test_summaries_of_a_penalty_sweep_are_over_the_same_runs(penalty_store):
    """The paper's penalty has more runs, from Table 2; they must not bias the comparison."""
    add_fake_records(penalty_store, RunConfig.from_preset("cora_ml", "apgcn"), [0.849, 0.851] + [0.2] * 30)
    (row,) = table4.build(penalty_store, Scope(("apgcn",), ("cora_ml",), None)).table.rows
    assert row["runs"] == 2
    assert row["drop"] == pytest.approx(6.0)


def test_interrupted_penalty_sweep_is_restricted_to_shared_runs(store):
    """One penalty has four runs, one has two of them, and one only others: run batches end in any order."""
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8, 0.8, 0.8, 0.9])
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn", penalty=0.1), [0.7, 0.7])
    unpaired = RunConfig.from_preset("cora_ml", "apgcn", penalty=0.01).first_runs(6)[5]
    store._runs.append([fake_record(unpaired, 0.5, [3])])
    scope = Scope(("apgcn",), ("cora_ml",), None)
    (row,) = table4.build(store, scope).table.rows
    assert (row["runs"], row["penalties"], row["drop"]) == (2, 2, pytest.approx(10))
    assert "only 2 of 7 penalties were run" in row["verdict"]
    artifact = figure3.build(store, scope)
    assert [row["penalty"] for row in artifact.table.rows] == [0.005, 0.1]
    assert artifact.panels == ()  # a curve needs three points
    assert len(artifact.records) == 4


def test_verdict_counts_penalties_within_the_interval_of_the_best():
    means = {
        penalty: dataclasses.replace(Summary.from_records([]), validation_accuracy=accuracy, validation_interval=0.5)
        for penalty, accuracy in ((0.005, 84.0), (0.01, 83.9), (0.1, 70.0))
    }
    verdict = table4._verdict(0.005, means, 0.005)
    assert verdict.startswith("the same penalty; 1 other within its interval on validation nodes")


def test_penalty_sweep_needs_two_penalties(store):
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8, 0.9])
    scope = Scope(("apgcn",), ("cora_ml",), None)
    assert table4.build(store, scope).table.rows == ()
    assert figure3.build(store, scope).table.rows == ()


def test_figure_3_shows_steps_decreasing_with_the_penalty(penalty_store):
    artifact = figure3.build(penalty_store, Scope(("apgcn",), ("cora_ml",), None))
    assert [row["penalty"] for row in artifact.table.rows] == list(penalty_sweep.PENALTIES)
    density, accuracy, steps, against_steps = artifact.panels
    assert list(against_steps.series[0].x) == pytest.approx([34, 44, 54, 64, 74, 84, 94])
    assert list(against_steps.series[0].y) == pytest.approx([79, 80, 84, 85, 82, 81, 80])
    assert steps.series[0].x == penalty_sweep.PENALTIES
    assert list(steps.series[0].y) == pytest.approx([9.4, 8.4, 7.4, 6.4, 5.4, 4.4, 3.4])
    assert list(accuracy.series[0].y) == pytest.approx([80, 81, 82, 85, 84, 80, 79])
    assert accuracy.log_x
    assert len(density.series) == 7


def test_figure_2_has_a_histogram_of_steps_and_a_density_of_their_means(store):
    steps = np.array([[2, 3, 3, 8], [2, 3, 5, 8]])
    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8, 0.9], steps=steps)
    artifact = figure2.build(store, Scope(("apgcn",), ("cora_ml", "pubmed"), None))
    all_graphs, panel = artifact.panels
    histogram, density = panel.series
    assert histogram.kind == "bars"
    assert dict(zip(histogram.x, histogram.y, strict=True)) == {
        1: 0, 2: 0.25, 3: 0.375, 4: 0, 5: 0.125, 6: 0, 7: 0, 8: 0.25, 9: 0, 10: 0
    }  # fmt: skip
    expected = stats.gaussian_kde([2, 3, 4, 8])(density.x)
    assert list(density.y) == pytest.approx(expected, abs=1e-5)
    assert all_graphs.series[0].y == density.y
    (row,) = artifact.table.rows
    assert (row["mode"], row["mode_fraction"], row["paper_steps"]) == (3, 0.375, 9.31)


def test_density_equals_scipys_but_has_a_minimum_bandwidth():
    random = np.random.default_rng(0)
    grid = np.linspace(0, 11, 50)
    wide = random.normal(5, 2, 40)
    assert figure2.kernel_density(wide, grid) == pytest.approx(stats.gaussian_kde(wide)(grid))
    narrow = random.normal(10, 0.001, 40)
    assert figure2.kernel_density(narrow, grid) == pytest.approx(stats.norm(10, 0.15).pdf(grid), abs=0.01)


def test_missing_steps_raise_an_error(store):
    (record,) = add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8])
    (store.folder / record.steps_file).unlink()
    with pytest.raises(BrokenFile, match="must hold the steps of a run batch"):
        store.mean_steps([record])


def test_steps_are_never_read_from_outside_the_store(store, tmp_path):
    key = RunConfig.from_preset("cora_ml", "apgcn").first_runs(1)[0]
    np.savez(tmp_path.parent / "secret.npz", steps=np.ones((1, 3)))
    with pytest.raises(BrokenFile, match="steps"):
        store.mean_steps([fake_record(key, 0.8, [1], file="../../secret.npz")])


def test_frozen_and_unfrozen_runs_are_paired(store):
    """Freezing gains 1, 2 and 3 points on three runs; a run that only one of both has does not count."""
    for frozen, accuracies in ((False, [0.80, 0.70, 0.60, 0.10]), (True, [0.81, 0.72, 0.63])):
        add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn", freeze_halted=frozen), accuracies)
    unfrozen, frozen = freezing.build(store, Scope(("apgcn", "gcn"), ("cora_ml",), None)).table.rows
    assert (unfrozen["frozen"], unfrozen["runs"], unfrozen["difference"]) == (False, 3, None)
    assert (frozen["frozen"], frozen["runs"]) == (True, 3)
    assert frozen["difference"] == pytest.approx(2.0)
    assert frozen["difference_interval"] == pytest.approx(cluster_bootstrap_half_width([1, 2, 3], TEST_SEEDS[:3]))
    assert frozen["accuracy"] == pytest.approx(72.0)


def test_figure_4_has_a_point_per_number_of_labels(store):
    for labels, accuracy in ((5, 0.7), (20, 0.8), (60, 0.9)):
        steps = np.full((2, 4), 10 - labels // 10) - np.arange(4) % 2
        run_config = RunConfig.from_preset("cora_ml", "apgcn", train_per_class=labels)
        add_fake_records(store, run_config, [accuracy, accuracy], steps=steps)
    artifact = figure4.build(store, Scope(("apgcn", "appnp"), ("cora_ml",), None))
    accuracy, density = artifact.panels
    assert accuracy.series[0].name == "AP-GCN"
    assert list(accuracy.series[0].x) == [5, 20, 60]
    assert list(accuracy.series[0].y) == pytest.approx([70, 80, 90])
    assert [series.name for series in density.series] == ["5", "20", "60"]


def test_splits_of_figure_4_exist_for_every_number_of_labels(benchmark_graph):
    from apgcn.benchmark.worker import run_from_key

    benchmark_graph("cora_ml")
    for labels in figure4.TRAIN_PER_CLASS_VALUES:
        key = RunConfig.from_preset("cora_ml", "apgcn", train_per_class=labels).first_runs(1)[0]
        assert len(run_from_key(key).split.train) == 7 * labels


def test_table_5_times_an_epoch(store, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.worker.TIMED_EPOCHS", 3)
    monkeypatch.setattr("apgcn.benchmark.worker.WARM_UP_EPOCHS", 1)
    times = iter([(100.0, 100.0), (2.0, 3.0), (4.0, 3.0), (9.0, 1.0)])  # of the warm-up and of three epochs
    measured = []

    def scripted_ms(*functions, device):
        measured.append(measure_ms(*functions, device=device))
        return next(times)

    monkeypatch.setattr("apgcn.benchmark.worker.measure_ms", scripted_ms)
    scope = Scope(("apgcn",), ("cora",), None)
    table5.measure(store, scope, device="cpu", command="apgcn reproduce table5")
    (record,) = store.timings.values()
    assert len(measured) == 4
    assert min(min(pair) for pair in measured) > 0
    assert (record.step_ms, record.evaluation_ms, record.epoch_ms) == (4, 3, 7)  # medians; the sums are 5, 7 and 10
    assert (record.epoch_low, record.epoch_high) == (6, 8.5)
    table5.measure(store, scope, device="cpu", command="again")
    assert list(store.timings.values()) == [record]  # once per hardware
    (row,) = table5.build(store, scope).table.rows
    assert row["epoch_ms"] == record.epoch_ms
    assert TimingRecord.from_json(record.to_json()) == record
    for wrong in ({"model": "gat"}, {"key": "foo"}, {"hardware": "abacus"}):
        with pytest.raises(InvalidInput, match="key must be that of the other fields"):
            TimingRecord.from_json({**record.to_json(), **wrong})


def test_table_5_has_a_row_per_preset(store, monkeypatch):
    monkeypatch.setattr("apgcn.benchmark.worker.TIMED_EPOCHS", 1)
    monkeypatch.setattr("apgcn.benchmark.worker.WARM_UP_EPOCHS", 0)
    scope = Scope(("arma", "apgcn"), ("cora",), None)
    for preset in ("published", "paper"):  # AP-GCN's are the same
        table5.measure(store, replace(scope, preset=preset), device="cpu", command="")

    def presets(scope):
        return [row["preset"] for row in table5.build(store, scope).table.rows]

    assert presets(scope) == ["paper", "published", "paper"]  # AP-GCN comes first
    assert presets(replace(scope, preset="paper")) == ["paper", "paper"]
    assert presets(replace(scope, preset="published")) == ["published", "published"]
    assert presets(replace(scope, preset="tuned")) == []


# --- progress ---


def test_progress_has_the_runs_left_and_their_time(store):
    from apgcn.benchmark.scheduler import plan_batches

    run_config = RunConfig.from_preset("cora_ml", "apgcn")
    plan_batches(store, run_config.first_runs(10), device="cpu", max_batch=lambda run_config: 5)
    assert store_progress(store).seconds_left is None  # no records yet
    add_fake_records(store, run_config, [0.8] * 5)  # two seconds each
    progress = store_progress(store)
    assert (progress.planned, progress.done, progress.seconds_left, progress.in_training) == (
        10,
        5,
        pytest.approx(10),
        0,
    )
    claim = store.claim(store.planned_batches[1])
    assert store_progress(store).in_training == 1
    claim.release()


def test_time_left_is_estimated_from_records_of_the_planned_device(store):
    from apgcn.benchmark.scheduler import plan_batches

    run_config = RunConfig.from_preset("cora_ml", "apgcn")
    add_fake_records(store, run_config, [0.8, 0.8], device="cuda", seconds=1.0)
    plan_batches(store, run_config.first_runs(4), device="cpu", max_batch=lambda run_config: 5)
    assert store_progress(store).seconds_left is None  # times of a GPU are not used for a CPU
    plan_batches(store, run_config.first_runs(4), device="cuda", max_batch=lambda run_config: 5)
    assert store_progress(store).seconds_left == pytest.approx(2)


def test_time_on_a_new_graph_is_estimated_by_its_size(store):
    from apgcn.benchmark.scheduler import plan_batches

    add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8])
    plan_batches(
        store, RunConfig.from_preset("pubmed", "apgcn").first_runs(3), device="cpu", max_batch=lambda run_config: 5
    )
    size_ratio = (19717 + 2 * 44324) / (2810 + 2 * 7981)
    assert store_progress(store).seconds_left == pytest.approx(3 * 2 * size_ratio)


def test_artifacts_in_a_store_include_its_further_graphs(store):
    add_fake_records(store, RunConfig.from_preset("cora", "apgcn"), [0.8])
    scopes = {spec.name: scope for spec, scope in artifacts_in_store(store)}
    assert "cora" in scopes["table2"].datasets
    assert "cora" not in scopes["table3"].datasets


def test_keys_are_grouped_by_config_in_order_and_once():
    first, second = (RunConfig.from_preset(name, "apgcn").first_runs(2) for name in ("cora", "cora_ml"))
    assert list(group_by_config([*first, *second, *first]).values()) == [first, second]


def test_rows_with_another_preset_come_below_and_have_their_own_stars(store):
    run_effect = np.random.default_rng(0).normal(0, 0.02, 20)
    for model, preset, level in (
        ("gcn", "paper", 0.80), ("appnp", "paper", 0.82), ("gcn", "published", 0.86), ("appnp", "published", 0.84)
    ):  # fmt: skip
        add_fake_records(
            store, RunConfig.from_preset("amazon_photo", model, preset=preset), (level + run_effect).tolist()
        )
    rows = accuracy_tables.build_table3(store, Scope(("gcn", "appnp"), ("amazon_photo",), None)).table.rows
    assert [(row["model"], row["preset"], row["stars"]) for row in rows] == [
        ("gcn", "paper", ""), ("appnp", "paper", "**"), ("gcn", "published", "**"), ("appnp", "published", "")
    ]  # fmt: skip
    published = accuracy_tables.build_table3(
        store, Scope(("gcn", "appnp"), ("amazon_photo",), 20, "published")
    ).table.rows
    assert [row["preset"] for row in published] == ["published", "published"]
    paper = accuracy_tables.build_table3(store, Scope(("gcn", "appnp"), ("amazon_photo",), 20)).table.rows
    assert [row["preset"] for row in paper] == ["paper", "paper"]


def test_ablation_has_a_row_for_each_combination_of_the_scripts_settings(store):
    """With all three it is the script's preset, with none the text's; differences are to the latter."""
    scope = Scope(("apgcn", "gcn"), ("amazon_photo",), 100)
    plan = ablation.plan(scope)
    configs = list(group_by_config(plan))
    assert (len(plan), len(configs)) == (8 * 20, 8)
    assert {config.preset for config in configs} == {"paper", "text", "protocol", ""}  # paper: script
    for number, config in enumerate(configs):
        add_fake_records(store, config, [0.8 + number / 100, 0.9 + number / 100])
    rows = ablation.build(store, scope).table.rows
    assert [row["script"] for row in rows[:2]] == [(False, False, False), (False, False, True)]
    assert [row["difference"] for row in rows] == [None, *(pytest.approx(number) for number in range(1, 8))]
    assert ablation.build(store, scope).table.cells[-1][2:5] == ["x", "x", "x"]


def test_the_time_of_a_batch_is_that_of_the_most_similar_recorded_runs(store):
    """Of the same model and graph; of the same model, scaled by the graph's size; of any model; or by size alone."""

    def batch(dataset, model, runs=4):
        return PlannedBatch.from_keys(RunConfig.from_preset(dataset, model).first_runs(runs), "cpu")

    citeseer, photo = (graph_size(name) for name in ("citeseer", "amazon_photo"))
    assert relative_time(batch("citeseer", "apgcn"), records=[]) == 4 * citeseer
    records = add_fake_records(store, RunConfig.from_preset("citeseer", "apgcn"), [0.7, 0.8], seconds=6.0)
    assert relative_time(batch("citeseer", "apgcn"), records=records) == 24
    assert relative_time(batch("amazon_photo", "apgcn"), records=records) == pytest.approx(24 * photo / citeseer)
    assert relative_time(batch("amazon_photo", "gcn"), records=records) == pytest.approx(24 * photo / citeseer)
    records += add_fake_records(store, RunConfig.from_preset("citeseer", "gcn"), [0.7], seconds=1.0)
    assert relative_time(batch("amazon_photo", "gcn"), records=records) == pytest.approx(4 * photo / citeseer)


def test_figure_2_begins_at_0_where_nodes_may_take_no_step(tmp_path):
    store = Store(tmp_path)
    records = [
        *add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn"), [0.8], [[1, 1, 2, 10]]),
        *add_fake_records(store, RunConfig.from_preset("cora_ml", "apgcn", min_steps=0), [0.8], [[0, 0, 1, 10]]),
    ]
    counted = figure2.steps_histogram(records)
    assert dict(zip(counted.x, counted.y, strict=True)) == {
        **dict.fromkeys(range(11), 0.0), 0: 2 / 8, 1: 3 / 8, 2: 1 / 8, 10: 2 / 8
    }  # fmt: skip
    assert figure2.steps_histogram(records[:1]).x == tuple(range(1, 11))
    assert min(figure2.steps_density(store, records[1:], name="").x) == -1
