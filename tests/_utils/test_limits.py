"""Memory limits: nested control groups of both versions, and the address space."""

import subprocess
import sys

import pytest
import torch

from apgcn._utils import limits
from apgcn.ops.devices import available_memory

GIB = 2**30
SLURM = "slurm/uid_0/job_7/step_0"


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        ("0::/\n", {"memory.max": 3 * GIB}, 3 * GIB),
        ("0::/a.slice/b\n", {"a.slice/memory.max": 2 * GIB, "a.slice/b/memory.max": "max"}, 2 * GIB),
        ("0::/a.slice/b\n", {"a.slice/memory.max": 2 * GIB, "a.slice/b/memory.max": GIB}, GIB),
        ("0::/a.slice/b\n", {"c/memory.max": GIB, "a.slice/memory.max": "max"}, 9 * GIB),
        (f"9:memory:/{SLURM}\n", {f"memory/{SLURM}/memory.limit_in_bytes": GIB}, GIB),
        (
            f"3:cpu,cpuacct:/x\n9:memory:/{SLURM}\n0::/\n",
            {
                "memory/memory.limit_in_bytes": 9223372036854771712,  # none, as the kernel writes it
                "memory/slurm/uid_0/job_7/memory.limit_in_bytes": 4 * GIB,
                f"memory/{SLURM}/memory.limit_in_bytes": 5 * GIB,
                "memory/x/memory.limit_in_bytes": GIB,
            },
            4 * GIB,
        ),
        ("", {}, 9 * GIB),
    ],
)
def test_the_smallest_memory_limit_of_the_groups_around_a_process_counts(
    tmp_path, monkeypatch, membership, files, expected
):
    monkeypatch.setattr("os.sysconf", lambda name: 9 * GIB if name == "SC_PHYS_PAGES" else 1)
    monkeypatch.setattr(limits, "CONTROL_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(limits, "MEMBERSHIP", tmp_path / "membership")
    (tmp_path / "membership").write_text(membership)
    for name, limit in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    assert available_memory(torch.device("cpu")) == expected


def test_the_address_space_limits_memory():
    """What is mapped already, about 1 GiB by PyTorch, is not available any more."""
    program = (
        "import resource, torch\n"
        "from apgcn.ops.devices import available_memory\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({16 * GIB}, {16 * GIB}))\n"
        "limits.MEMBERSHIP = limits.CONTROL_GROUPS = limits.Path('/nowhere')\n"
        f"limits._machine_memory = lambda: {64 * GIB}\n"
        "print(available_memory(torch.device('cpu')))\n"
    )
    program = f"from apgcn._utils import limits\n{program}"
    available = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert 1 * GIB < available < 16 * GIB
