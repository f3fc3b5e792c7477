"""Is a dearer step worth it? scikit-learn's own grid search asks, over the nodes of one graph."""

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from apgcn import APGCNClassifier, clean, load


def main() -> dict[float, float]:
    graph = clean(load("cora"))
    labelled = np.random.default_rng(0).choice(graph.num_nodes, size=400, replace=False)
    search = GridSearchCV(
        APGCNClassifier(graph=graph, max_epochs=300),
        {"penalty": [0.001, 0.1]},
        cv=StratifiedKFold(3, shuffle=True, random_state=0),
    )
    search.fit(labelled, graph.labels[labelled])
    found = {}
    for tried, accuracy in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        found[tried["penalty"]] = accuracy
        print(f"penalty {tried['penalty']}: {100 * accuracy:.1f} %")
    print(f"K {search.best_estimator_.steps_.mean():.2f} with penalty {search.best_params_['penalty']}")
    return found


if __name__ == "__main__":
    main()
