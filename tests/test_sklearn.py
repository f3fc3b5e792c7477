"""scikit-learn's own checks, its cross-validation, and what a graph adds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from apgcn import clean, load
from apgcn.cli import run
from apgcn.data.graph import Graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import load_model
from apgcn.report.explain.payload import content

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from apgcn.sklearn import APGCNClassifier  # noqa: E402

SMALL = APGCNClassifier(max_epochs=150, patience=30, dropout=0.0, penalty=0.0, hidden_channels=32, l2=0.0)
QUICK = {"max_epochs": 60, "hidden_channels": 16}


@parametrize_with_checks(
    [SMALL],
    expected_failed_checks=lambda _: {
        "check_classifiers_classes": "-1 is no class here: it marks nodes whose class is unknown"
    },
)
@pytest.mark.filterwarnings("ignore:neither adjacency nor graph")
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def ring():
    """Two rings of nodes that know nothing but whether they are the first one of theirs."""
    nodes = 40
    links = [(node, (node + 1) % 20 + 20 * (node >= 20)) for node in range(nodes)]
    rows, columns = np.array(links).T
    adjacency = sparse.coo_matrix((np.ones(nodes), (rows, columns % nodes)), shape=(nodes, nodes))
    adjacency = (adjacency + adjacency.T).tocsr()
    features = np.zeros((nodes, 2))
    features[0, 0] = features[20, 1] = 1
    return features, np.repeat([0, 1], 20), adjacency


def test_unlabelled_nodes_are_marked_in_any_way(ring):
    features, labels, adjacency = ring
    names = np.array(["left", "right"])[labels].astype(object)
    known = np.arange(40) % 3 == 0
    answers = []
    for y in (np.where(known, labels, -1), np.where(known, labels, np.nan), np.where(known, names, None)):
        classifier = APGCNClassifier(**QUICK).fit(features, y, adjacency=adjacency)
        answers.append(classifier.predict_proba())
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])
    assert set(classifier.predict()) <= {"left", "right"}
    assert classifier.steps_.shape == (40,)
    assert 0 <= classifier.calibration_error_ <= 1


def test_another_graph_may_be_asked_about(ring):
    features, labels, adjacency = ring
    classifier = APGCNClassifier(**QUICK).fit(features, labels, adjacency=adjacency)
    order = np.random.default_rng(0).permutation(40)
    renamed = classifier.predict_proba(features[order], adjacency[order][:, order])
    np.testing.assert_allclose(renamed, classifier.predict_proba()[order], atol=1e-5)
    assert classifier.ask(features, adjacency).steps.shape == (40,)
    with pytest.raises(InvalidInput, match="adjacency must be 40 x 40"):
        classifier.predict(features, adjacency[:5])


def test_initialisations_are_averaged(ring):
    features, labels, adjacency = ring
    said = [
        APGCNClassifier(**QUICK, n_init=count, random_state=seed).fit(features, labels, adjacency=adjacency)
        for count, seed in ((3, 0), (1, 0))
    ]
    assert said[0]._fitted.initialisations == 3
    for name, weight in said[1]._fitted.weights.items():
        np.testing.assert_allclose(said[0]._fitted.weights[name][:1], weight, atol=1e-5)
    fitted, graph = said[0]._fitted, said[0]._graph
    parts = [
        replace(fitted, weights={name: weight[number : number + 1] for name, weight in fitted.weights.items()})
        for number in range(3)
    ]
    alone = [part.predict(graph) for part in parts]
    np.testing.assert_allclose(
        said[0].predict_proba(), np.mean([one.probabilities for one in alone], axis=0), atol=1e-6
    )
    np.testing.assert_allclose(said[0].steps_, np.mean([one.steps for one in alone], axis=0))


def test_cross_validation_runs_unchanged():
    cora = clean(load("cora"))
    nodes = np.arange(cora.num_nodes)
    classifier = APGCNClassifier(graph=cora, max_epochs=300, patience=50)
    scores = cross_val_score(classifier, nodes, cora.labels, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.7
    search = GridSearchCV(APGCNClassifier(graph=cora, max_epochs=5), {"penalty": [0.001, 0.1]}, cv=2)
    assert search.fit(nodes[:, None], cora.labels).best_params_["penalty"] in (0.001, 0.1)
    assert clone(classifier).get_params()["max_epochs"] == 300


def test_a_part_of_the_nodes_says_nothing_of_the_labels_of_others():
    """Other labels in the given graph change nothing: only y is learned from."""
    cora = clean(load("cora"))
    nodes = np.arange(0, cora.num_nodes, 4)
    shuffled = Graph(cora.adjacency, features=cora.features, labels=cora.labels[::-1].copy(), name=cora.name)
    answers = [
        APGCNClassifier(graph=graph, max_epochs=5).fit(nodes, cora.labels[nodes]).predict_proba()
        for graph in (cora, shuffled)
    ]
    np.testing.assert_array_equal(*answers)


def test_a_classifier_comes_back_from_its_folder(ring, tmp_path):
    features, labels, adjacency = ring
    classifier = APGCNClassifier(**QUICK, penalty=0.01).fit(features, labels, adjacency=adjacency)
    classifier.save(tmp_path / "model")
    again = APGCNClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(), classifier.predict_proba())
    assert again.get_params()["penalty"] == 0.01
    assert again.classes_.tolist() == ["0", "1"]
    assert content(load_model(tmp_path / "model"))["all_nodes"] == 40  # a page can be made of it, too


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": np.full(40, -1)}, "y must hold the classes of some nodes"),
        ({"y": np.zeros(40, int)}, "two classes or more"),
        ({"y": np.zeros(39, int)}, "one label for each of 40 nodes"),
        ({"adjacency": np.eye(3)}, "adjacency must be 40 x 40"),
        ({"adjacency": -np.eye(40)}, "edge weights must be >= 0"),
    ],
)
def test_a_mistake_is_told_in_words(ring, change, sentence):
    features, labels, adjacency = ring
    given = {"y": labels, "adjacency": adjacency, **change}
    with pytest.raises(InvalidInput, match=sentence):
        APGCNClassifier(**QUICK).fit(features, **given)


def test_numbers_of_nodes_are_checked():
    cora = clean(load("cora"))
    for nodes, sentence in (([[0.5]], "X must hold numbers of nodes"), ([99_999], "X must hold nodes from 0 to 2484")):
        with pytest.raises(InvalidInput, match=sentence):
            APGCNClassifier(graph=cora).fit(nodes, [0])


def test_a_graph_is_never_forgotten_without_a_word(ring):
    features, labels, adjacency = ring
    fitted = APGCNClassifier(**QUICK).fit(features, labels, adjacency=adjacency)
    for ask in (fitted.predict, fitted.predict_proba, lambda X: fitted.score(X, labels)):
        with pytest.raises(InvalidInput, match="adjacency must be given with X"):
            ask(features)
    with pytest.raises(InvalidInput, match="adjacency must come with the features"):
        fitted.predict(adjacency=adjacency)
    with pytest.warns(UserWarning, match="neither adjacency nor graph is given"):
        APGCNClassifier(**QUICK).fit(features, labels)
    graph = Graph(adjacency, features)
    given = APGCNClassifier(graph=graph, **QUICK)
    with pytest.raises(InvalidInput, match="adjacency must not be given beside graph"):
        given.fit(np.arange(40), labels, adjacency=adjacency)
    with pytest.raises(InvalidInput, match="must not name a node twice with two classes"):
        given.fit([0, 1, 20, 21, 0], [0, 0, 1, 1, 1])
    given.fit(np.arange(40), labels).set_params(graph=Graph(np.eye(50), np.eye(50)))
    with pytest.raises(InvalidInput, match="graph must be the one that it was fitted with"):
        given.predict(np.arange(3))
    with pytest.raises(InvalidInput, match="from 0 to 39, got -2"):
        given.set_params(graph=graph).predict([-2, 1])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"random_state": -1}, "random_state must be >= 0"),
        ({"random_state": "a"}, "random_state must be a whole number"),
        ({"n_init": 2.5}, "n_init must be a whole number"),
        ({"adjacency": "a"}, "adjacency must be an array or a sparse matrix, got str"),
    ],
)
def test_what_is_given_is_checked(ring, change, sentence):
    features, labels, adjacency = ring
    adjacency = change.pop("adjacency", adjacency)
    with pytest.raises(InvalidInput, match=sentence):
        APGCNClassifier(**{**QUICK, **change}).fit(features, labels, adjacency=adjacency)


def test_labels_and_edges_of_many_kinds(ring):
    features, labels, adjacency = ring
    pandas = pytest.importorskip("pandas")
    words = pandas.array([None if node % 4 else "ab"[label] for node, label in enumerate(labels)], dtype="string")
    truths = np.array([None if node % 4 else bool(label) for node, label in enumerate(labels)], dtype=object)
    numbers = np.where(np.arange(40) % 4 == 0, labels, -1)
    said = [
        APGCNClassifier(**QUICK, random_state=np.random.RandomState(0)).fit(features, known, edges).predict_proba()
        for known, edges in ((numbers, adjacency), (words, adjacency.toarray().tolist()), (truths, adjacency))
    ]
    np.testing.assert_allclose(said[0], said[1], atol=1e-6)
    np.testing.assert_allclose(said[0], said[2], atol=1e-6)


def test_what_was_chosen_comes_back_from_the_folder(ring, tmp_path):
    features, labels, adjacency = ring
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(features, columns=["one", "two"])
    fitted = APGCNClassifier(**QUICK, n_init=2, random_state=7).fit(table, [" a", "b "] * 20, adjacency=adjacency)
    fitted.save(tmp_path / "m")
    loaded = APGCNClassifier.load(tmp_path / "m")
    assert loaded.classes_.tolist() == [" a", "b "]
    assert (loaded.n_init, loaded.random_state) == (2, 7)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[["two", "one"]], adjacency)
    graph = Graph(adjacency, features)
    APGCNClassifier(graph=graph, **QUICK).fit(np.arange(40), labels).save(tmp_path / "g")
    assert APGCNClassifier.load(tmp_path / "g", graph=graph).predict(np.arange(3)).shape == (3,)


def test_a_model_of_tables_is_asked_with_tables(tmp_path):
    nodes = "id,topic,size\n" + "".join(f"{node},{'ab'[node % 2]},{1000 + node}\n" for node in range(12))
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{node},{node + 1}\n" for node in range(11)))
    files = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--label", "topic"]
    assert run(["train", *files, "--out", str(tmp_path / "m"), "--set", "max_epochs=5"]) == 0
    loaded = APGCNClassifier.load(tmp_path / "m")
    assert loaded.predict().shape == (12,)
    with pytest.raises(InvalidInput, match="was trained on columns of tables"):
        loaded.predict(np.ones((3, 1)), np.eye(3))
