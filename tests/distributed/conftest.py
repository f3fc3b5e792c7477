from dataclasses import replace

import pytest

from apgcn.data.npz import write_npz
from apgcn.data.synthetic import synthetic_graph


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """An .npz archive of a synthetic graph, whose nodes halt at different steps."""
    graph = synthetic_graph(400, edges=1500, features=12, classes=3)
    path = tmp_path_factory.mktemp("archive") / "graph.npz"
    write_npz(path, replace(graph, node_names=tuple(f"node {number}" for number in range(400))))
    return path
