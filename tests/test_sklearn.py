"""The classifier passes scikit-learn's checks and cross-validation, and uses the graph."""

import numpy as np
import pytest
from scipy import sparse

from apgcn import clean, load
from apgcn.cli import run
from apgcn.data.graph import Graph
from apgcn.data.synthetic import two_block_graph
from apgcn.errors import InvalidInput
from apgcn.inference.bundle import load_model
from apgcn.report.explain.payload import build_payload

sklearn = pytest.importorskip("sklearn")

from sklearn.base import clone  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from apgcn.sklearn import APGCNClassifier  # noqa: E402

SMALL = APGCNClassifier(
    max_epochs=40, patience=10, learning_rate=0.05, dropout=0.0, penalty=0.0, hidden_channels=16, l2=0.0
)
QUICK = {"max_epochs": 60, "hidden_channels": 16}


@parametrize_with_checks(
    [SMALL],
    expected_failed_checks=lambda _: {"check_classifiers_classes": "-1 marks unlabelled nodes, so it is not a class"},
)
@pytest.mark.filterwarnings("ignore:neither adjacency nor graph")
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def ring():
    """Two rings; the only features mark the first node of each."""
    nodes = 40
    edges = [(node, (node + 1) % 20 + 20 * (node >= 20)) for node in range(nodes)]
    rows, columns = np.array(edges).T
    adjacency = sparse.coo_matrix((np.ones(nodes), (rows, columns % nodes)), shape=(nodes, nodes))
    adjacency = (adjacency + adjacency.T).tocsr()
    features = np.zeros((nodes, 2))
    features[0, 0] = features[20, 1] = 1
    return features, np.repeat([0, 1], 20), adjacency


def test_unlabelled_nodes_are_minus_one_nan_or_none(ring):
    features, labels, adjacency = ring
    names = np.array(["left", "right"])[labels].astype(object)
    labelled = np.arange(40) % 3 == 0
    probabilities = []
    for y in (np.where(labelled, labels, -1), np.where(labelled, labels, np.nan), np.where(labelled, names, None)):
        classifier = APGCNClassifier(**QUICK).fit(features, y, adjacency=adjacency)
        probabilities.append(classifier.predict_proba())
    np.testing.assert_array_equal(probabilities[0], probabilities[1])
    np.testing.assert_array_equal(probabilities[0], probabilities[2])
    assert set(classifier.predict()) <= {"left", "right"}
    assert classifier.steps_.shape == (40,)
    assert 0 <= classifier.calibration_error_ <= 1


def test_prediction_for_another_graph(ring):
    features, labels, adjacency = ring
    classifier = APGCNClassifier(**QUICK).fit(features, labels, adjacency=adjacency)
    order = np.random.default_rng(0).permutation(40)
    permuted = classifier.predict_proba(features[order], adjacency[order][:, order])
    np.testing.assert_allclose(permuted, classifier.predict_proba()[order], atol=1e-5)
    assert classifier.predict_nodes(features, adjacency).steps.shape == (40,)
    with pytest.raises(InvalidInput, match="adjacency must be 40 x 40"):
        classifier.predict(features, adjacency[:5])


def test_predictions_are_averaged_over_the_ensemble(ring):
    features, labels, adjacency = ring
    ensemble, single = (
        APGCNClassifier(**QUICK, ensemble_size=size, random_state=0).fit(features, labels, adjacency=adjacency)
        for size in (3, 1)
    )
    assert ensemble._model.ensemble_size == 3
    for name, weight in single._model.weights.items():
        np.testing.assert_allclose(ensemble._model.weights[name][:1], weight, atol=1e-5)
    members = [ensemble._model.member(number).predict(ensemble._graph) for number in range(3)]
    np.testing.assert_allclose(
        ensemble.predict_proba(), np.mean([member.probabilities for member in members], axis=0), atol=1e-6
    )
    np.testing.assert_allclose(ensemble.steps_, np.mean([member.steps for member in members], axis=0))


def test_cross_validation_and_grid_search():
    cora = clean(load("cora"))
    nodes = np.arange(cora.num_nodes)
    classifier = APGCNClassifier(graph=cora, max_epochs=60, learning_rate=0.05)
    scores = cross_val_score(classifier, nodes, cora.labels, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.7
    search = GridSearchCV(APGCNClassifier(graph=cora, max_epochs=5), {"penalty": [0.001, 0.1]}, cv=2)
    assert search.fit(nodes[:, None], cora.labels).best_params_["penalty"] in (0.001, 0.1)
    assert clone(classifier).get_params()["max_epochs"] == 60


def test_labels_of_the_graph_are_not_used():
    """Other labels in the parameter `graph` change nothing: only y is used."""
    cora = clean(load("cora"))
    nodes = np.arange(0, cora.num_nodes, 4)
    shuffled = Graph(cora.adjacency, features=cora.features, labels=cora.labels[::-1].copy(), name=cora.name)
    probabilities = [
        APGCNClassifier(graph=graph, max_epochs=5).fit(nodes, cora.labels[nodes]).predict_proba()
        for graph in (cora, shuffled)
    ]
    np.testing.assert_array_equal(*probabilities)


def test_loaded_classifier_predicts_the_same(ring, tmp_path):
    features, labels, adjacency = ring
    classifier = APGCNClassifier(**QUICK, penalty=0.01).fit(features, labels, adjacency=adjacency)
    classifier.save(tmp_path / "model")
    loaded = APGCNClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(), classifier.predict_proba())
    assert loaded.get_params()["penalty"] == 0.01
    assert loaded.classes_.tolist() == ["0", "1"]
    assert build_payload(load_model(tmp_path / "model"))["num_nodes"] == 40  # the explain page works for it, too


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(40, -1)}, "y must hold the classes of some nodes"),
        ({"y": np.zeros(40, int)}, "at least two classes"),
        ({"y": np.zeros(39, int)}, "one label for each of 40 nodes"),
        ({"adjacency": np.eye(3)}, "adjacency must be 40 x 40"),
        ({"adjacency": -np.eye(40)}, "edge weights must be >= 0"),
    ],
)
def test_wrong_input_is_refused_with_a_message(ring, change, message):
    features, labels, adjacency = ring
    arguments = {"y": labels, "adjacency": adjacency, **change}
    with pytest.raises(InvalidInput, match=message):
        APGCNClassifier(**QUICK).fit(features, **arguments)


def test_node_indices_are_checked():
    cora = clean(load("cora"))
    for nodes, message in (([[0.5]], "X must hold indices of nodes"), ([99_999], "X must hold nodes from 0 to 2484")):
        with pytest.raises(InvalidInput, match=message):
            APGCNClassifier(graph=cora).fit(nodes, [0])


def test_missing_or_wrong_graph_is_reported(ring):
    features, labels, adjacency = ring
    classifier = APGCNClassifier(**QUICK).fit(features, labels, adjacency=adjacency)
    for method in (classifier.predict, classifier.predict_proba, lambda X: classifier.score(X, labels)):
        with pytest.raises(InvalidInput, match="adjacency must be given with X"):
            method(features)
    with pytest.raises(InvalidInput, match="adjacency must come with X, the features"):
        classifier.predict(adjacency=adjacency)
    with pytest.warns(UserWarning, match="neither adjacency nor graph is given"):
        APGCNClassifier(**QUICK).fit(features, labels)
    graph = Graph(adjacency, features)
    transductive = APGCNClassifier(graph=graph, **QUICK)
    with pytest.raises(InvalidInput, match="adjacency must not be given with graph"):
        transductive.fit(np.arange(40), labels, adjacency=adjacency)
    with pytest.raises(InvalidInput, match="must not hold a node twice with two classes"):
        transductive.fit([0, 1, 20, 21, 0], [0, 0, 1, 1, 1])
    transductive.fit(np.arange(40), labels).set_params(graph=Graph(np.eye(50), np.eye(50)))
    with pytest.raises(InvalidInput, match="graph must be the one that the classifier was fitted with"):
        transductive.predict(np.arange(3))
    with pytest.raises(InvalidInput, match="from 0 to 39, got -2"):
        transductive.set_params(graph=graph).predict([-2, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"random_state": -1}, "random_state must be >= 0"),
        ({"random_state": "a"}, "random_state must be an integer"),
        ({"ensemble_size": 2.5}, "ensemble_size must be an integer"),
        ({"adjacency": "a"}, "adjacency must be an array or a sparse matrix, got str"),
    ],
)
def test_wrong_parameters_are_refused_with_a_message(ring, change, message):
    features, labels, adjacency = ring
    adjacency = change.pop("adjacency", adjacency)
    with pytest.raises(InvalidInput, match=message):
        APGCNClassifier(**{**QUICK, **change}).fit(features, labels, adjacency=adjacency)


def test_labels_and_edges_of_many_types(ring):
    features, labels, adjacency = ring
    pandas = pytest.importorskip("pandas")
    strings = pandas.array([None if node % 4 else "ab"[label] for node, label in enumerate(labels)], dtype="string")
    bools = np.array([None if node % 4 else bool(label) for node, label in enumerate(labels)], dtype=object)
    numbers = np.where(np.arange(40) % 4 == 0, labels, -1)
    probabilities = [
        APGCNClassifier(**QUICK, random_state=np.random.RandomState(0)).fit(features, y, edges).predict_proba()
        for y, edges in ((numbers, adjacency), (strings, adjacency.toarray().tolist()), (bools, adjacency))
    ]
    np.testing.assert_allclose(probabilities[0], probabilities[1], atol=1e-6)
    np.testing.assert_allclose(probabilities[0], probabilities[2], atol=1e-6)


def test_parameters_and_feature_names_are_loaded(ring, tmp_path):
    features, labels, adjacency = ring
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(features, columns=["one", "two"])
    classifier = APGCNClassifier(**QUICK, ensemble_size=2, random_state=7).fit(
        table, [" a", "b "] * 20, adjacency=adjacency
    )
    classifier.save(tmp_path / "m")
    loaded = APGCNClassifier.load(tmp_path / "m")
    assert loaded.classes_.tolist() == [" a", "b "]
    assert (loaded.ensemble_size, loaded.random_state) == (2, 7)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[["two", "one"]], adjacency)
    graph = Graph(adjacency, features)
    APGCNClassifier(graph=graph, **QUICK).fit(np.arange(40), labels).save(tmp_path / "g")
    assert APGCNClassifier.load(tmp_path / "g", graph=graph).predict(np.arange(3)).shape == (3,)


def test_model_of_tables_needs_tables(tmp_path):
    nodes = "id,topic,size\n" + "".join(f"{node},{'ab'[node % 2]},{1000 + node}\n" for node in range(12))
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{node},{node + 1}\n" for node in range(11)))
    files = ["--edges", str(tmp_path / "edges.csv"), "--nodes", str(tmp_path / "nodes.csv"), "--label", "topic"]
    assert run(["fit", *files, "--out", str(tmp_path / "m"), "--set", "max_epochs=5"]) == 0
    loaded = APGCNClassifier.load(tmp_path / "m")
    assert loaded.predict().shape == (12,)
    with pytest.raises(InvalidInput, match="X must be a table, on whose columns the model was trained"):
        loaded.predict(np.ones((3, 1)), np.eye(3))


def test_min_steps_0_lets_nodes_be_predicted_from_their_features_alone():
    graph = two_block_graph(400, degree=6, signal=1.0)
    labels = np.where(np.arange(400) % 4 == 0, graph.labels, -1)
    classifier = APGCNClassifier(min_steps=0, penalty=0.5, max_epochs=200)
    classifier.fit(graph.features, labels, adjacency=graph.adjacency)
    assert classifier.steps_.min() == 0
