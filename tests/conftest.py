from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import signal
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from apgcn import Graph, clean, load
from apgcn.data import dataset_info, load_prepared

torch.set_num_threads(1)
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # several workers of pytest-xdist share the cores
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
for number in (
    signal.SIGINT,
    signal.SIGHUP,
):  # background jobs ignore them, and so would the processes that tests start
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def ordered_dot_products():
    """`tl.dot` of Triton's interpreter adds its terms in ascending order, as compiled kernels do.

    The interpreter calls the BLAS library of numpy, whose order depends on the CPU and on the position of a column.
    """
    if os.environ.get("TRITON_INTERPRET") != "1" or importlib.util.find_spec("triton") is None:
        return
    from triton.runtime import interpreter

    def create_dot(self, a, b, accumulator, input_precision, max_num_imprecise_acc):
        total = accumulator.data.copy()
        for k in range(a.data.shape[1]):
            total += a.data[:, k, None] * b.data[k]
        return interpreter.TensorHandle(total, accumulator.dtype.scalar)

    interpreter.InterpreterBuilder.create_dot = create_dot


@pytest.fixture(scope="session", autouse=True)
def language_replaced_once_per_launch():
    """Triton's interpreter replaces the functions of its language once for each launch of a kernel.

    It would do so again whenever the kernel calls another function, and look for these functions among all members of
    its modules each time, which takes most of the time of a test.
    """
    if os.environ.get("TRITON_INTERPRET") != "1" or importlib.util.find_spec("triton") is None:
        return
    import triton.language as tl
    from triton.runtime import interpreter

    both_modules = SimpleNamespace(__globals__={"tl": tl, "core": tl.core})  # of kernels, and of Triton's functions
    patch_language = interpreter._patch_lang

    @cache
    def builtins_of(module):
        return inspect.getmembers(module, tl.core.is_builtin)

    def patch_builtins(module, builder, scope):
        for name, member in builtins_of(module):
            interpreter._patch_attr(module, name, member, builder, scope)

    interpreter._patch_builtin = patch_builtins
    interpreter._patch_lang = lambda function: patch_language(both_modules)
    interpreter.InterpretedFunction.__call__ = lambda self, *args, **kwargs: self.rewrite()(*args, **kwargs)


@pytest.fixture(scope="session")
def cora() -> Graph:
    return clean(load("cora"))


@pytest.fixture(scope="session")
def benchmark_graph():
    """A function that loads a benchmark graph as models are trained on it, or skips the test if its file is missing."""
    cache: dict[str, Graph] = {}

    def get(name: str) -> Graph:
        folder = os.environ.get("APGCN_DATA")
        file = dataset_info(name).file_name
        if not folder or not (Path(folder) / file).is_file():
            pytest.skip(f"needs {file}: set APGCN_DATA to a folder that has it")
        if name not in cache:
            cache[name] = load_prepared(name)
        return cache[name]

    return get


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
