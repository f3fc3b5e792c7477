from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

from apgcn import Graph, clean, load
from apgcn.datasets import describe

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
for number in (signal.SIGINT, signal.SIGHUP):  # which jobs in the background ignore, as would what we start
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler)


@pytest.fixture(scope="session")
def cora() -> Graph:
    return clean(load("cora"))


@pytest.fixture(scope="session")
def benchmark_graph():
    """A function that loads and cleans a benchmark graph, or skips the test and says why."""
    loaded: dict[str, Graph] = {}

    def get(name: str) -> Graph:
        folder = os.environ.get("APGCN_DATA")
        file = describe(name).file_name
        if not folder or not (Path(folder) / file).is_file():
            pytest.skip(f"needs {file}: set APGCN_DATA to a folder that has it")
        if name not in loaded:
            loaded[name] = clean(load(name))
        return loaded[name]

    return get


def random_graph(nodes: int, *, edges: int, features: int = 5, classes: int = 3, seed: int = 0) -> Graph:
    """An undirected graph without self-loops, some of whose nodes may be isolated; dense features."""
    random = np.random.default_rng(seed)
    ends = random.integers(nodes, size=(2, edges))
    ends = ends[:, ends[0] != ends[1]]
    matrix = sparse.csr_matrix((np.ones(ends.shape[1]), ends), shape=(nodes, nodes))
    return Graph(
        adjacency=((matrix + matrix.T) > 0).astype(np.float32),
        features=random.random((nodes, features)) * (random.random((nodes, features)) < 0.6),
        labels=random.permutation(np.arange(nodes) % classes),
        name="random",
    )


def shell_status(process: subprocess.Popen) -> int:
    """The exit status as a shell shows it: 128 more than the signal, for a process that a signal ended.

    An interrupted Python can end either way, with 130 or by SIGINT: where the interruption falls into an `exec`, as in
    the making of a namedtuple during an import, Python ends itself by SIGINT although the exception was handled.
    """
    return 128 - process.returncode if process.returncode < 0 else process.returncode


@pytest.fixture(scope="session")
def browser():
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not binary:
        pytest.skip("needs chromium: sudo apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=binary, args=["--no-sandbox"])
        yield chromium
        chromium.close()
