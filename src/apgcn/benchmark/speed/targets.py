"""What did we set out to reach, and is it reached here?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """A bar, on the hardware it was set for; `higher` says whether more is better."""

    title: str
    key: str
    must: float
    aim: float | None
    unit: str
    higher: bool = False

    def verdict(self, measured: float) -> str:
        """`aim`, `must`, or `not reached`."""
        reaches = (lambda bar: measured >= bar) if self.higher else (lambda bar: measured <= bar)
        if self.aim is not None and reaches(self.aim):
            return "aim reached"
        return "must reached" if reaches(self.must) else "not reached"


GPU = "one H200"
TARGETS = (
    Target("Cora-ML, one run, one thread: faster than PyG's AP-GCN", "speedup_over_pyg_apgcn", 25, 50, "x", True),
    Target("the same, faster than PyG's APPNP", "speedup_over_pyg_appnp", 20, 45, "x", True),
    Target("100 Cora-ML runs, two cores", "cora_ml_100_cpu_seconds", 900, 480, "s"),
    Target(f"100 Cora-ML runs, {GPU}", "cora_ml_100_cuda_seconds", 20, 8, "s"),
    Target(f"AP-GCN on six graphs, 100 runs each, {GPU}", "six_100_cuda_seconds", 180, 60, "s"),
    Target(f"memory of 100 A.Computer runs, {GPU}", "amazon_computers_100_cuda_gigabytes", 20, 6, "GB"),
    Target("using every name of apgcn, PyTorch's import counted", "everything_seconds", 2, None, "s"),
    Target("import apgcn", "import_seconds", 0.2, None, "s"),
)


def standing(measured: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """A line for each target of which something was measured."""
    return [
        {
            "what": target.title,
            "measured": value,
            "must": target.must,
            "aim": target.aim,
            "unit": target.unit,
            "verdict": target.verdict(value),
        }
        for target in TARGETS
        if (value := measured.get(target.key)) is not None
    ]
