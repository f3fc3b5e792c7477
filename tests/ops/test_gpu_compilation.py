"""The kernels for a GPU compile, on machines without one too, where other tests run them in Triton's interpreter."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import apgcn

pytest.importorskip("triton")

TESTS = Path(__file__).parents[1]
KERNELS = Path(apgcn.__file__).parent / "ops/kernels/gpu"


@pytest.mark.slow
def test_the_kernels_of_all_models_compile_for_a_gpu(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(TESTS)}
    environment.pop("TRITON_INTERPRET", None)
    finished = subprocess.run(
        [sys.executable, "-m", "helpers.compile_gpu_kernels"], env=environment, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    launched = {name for file in KERNELS.glob("*.py") for name in re.findall(r"^ +(_\w+)\[", file.read_text(), re.M)}
    assert set(finished.stdout.split()) == launched
