"""Choose the penalty with scikit-learn's grid search, over the nodes of one graph."""

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from apgcn import APGCNClassifier, clean, load


def main() -> tuple[dict[float, float], float]:
    graph = clean(load("cora"))
    labelled = np.random.default_rng(0).choice(graph.num_nodes, size=400, replace=False)
    search = GridSearchCV(
        APGCNClassifier(graph=graph, learning_rate=0.03, patience=20),
        {"penalty": [0.001, 0.1]},
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    )
    search.fit(labelled, graph.labels[labelled])
    accuracies = {}
    for parameters, accuracy in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        accuracies[parameters["penalty"]] = accuracy
        print(f"penalty {parameters['penalty']}: accuracy {100 * accuracy:.1f} %")
    others = np.setdiff1d(np.arange(graph.num_nodes), labelled)
    accuracy = search.score(others, graph.labels[others])
    mean_steps = search.best_estimator_.steps_.mean()
    print(
        f"accuracy {100 * accuracy:.1f} % on {len(others):,} other nodes, K {mean_steps:.2f} with {search.best_params_}"
    )
    return accuracies, accuracy


if __name__ == "__main__":
    main()
