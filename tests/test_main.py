"""The command `apgcn` while it is being imported."""

import os
import subprocess
import sys

import pytest

INTERRUPTION = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
except KeyboardInterrupt:
    if {is_lost}:
        raise ImportError("the interruption is lost") from None
    raise
"""


@pytest.mark.parametrize(("module", "is_lost"), [("typer", False), ("typer", True), ("torch", False)])
def test_an_interruption_during_an_import_is_one_line(tmp_path, module, is_lost):
    """A module interrupts the process while it is imported; some modules then fail with another exception."""
    (tmp_path / f"{module}.py").write_text(INTERRUPTION.format(is_lost=is_lost))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "apgcn", "train", "cora", "--set", "max_epochs=1"]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr, done.stdout) == (130, "apgcn: interrupted.\n", "")
