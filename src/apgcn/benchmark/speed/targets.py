"""Speed targets of the project, and how a measurement compares with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Target:
    """A required value (`must`) and a desired one (`aim`) of a measurement, on the hardware named in the title."""

    title: str
    key: str
    must: float
    aim: float | None
    unit: str
    higher_is_better: bool = False

    def verdict(self, measured: float) -> str:
        """One of "aim reached", "must reached" and "not reached"."""
        if self.aim is not None and self._reached(measured, self.aim):
            return "aim reached"
        return "must reached" if self._reached(measured, self.must) else "not reached"

    def _reached(self, measured: float, limit: float) -> bool:
        return measured >= limit if self.higher_is_better else measured <= limit


GPU = "one H200"
TARGETS = (
    Target("Cora-ML, one run, one thread: faster than PyG's AP-GCN", "speedup_over_pyg_apgcn", 28, 50, "x", True),
    Target("the same, faster than PyG's APPNP", "speedup_over_pyg_appnp", 20, 45, "x", True),
    Target("100 Cora-ML runs, two cores", "cora_ml_100_cpu_seconds", 900, 480, "s"),
    Target(f"100 Cora-ML runs, {GPU}", "cora_ml_100_cuda_seconds", 11, 8, "s"),
    Target(f"AP-GCN on six graphs, 100 runs each, {GPU}", "six_100_cuda_seconds", 120, 60, "s"),
    Target(f"memory of 100 A.Computer runs, {GPU}", "amazon_computers_100_cuda_gigabytes", 20, 6, "GB"),
    Target("using every name of apgcn, PyTorch's import counted", "all_names_seconds", 2, None, "s"),
    Target("import apgcn", "import_seconds", 0.2, None, "s"),
)


def compare_with_targets(measured: Mapping[str, float | None]) -> list[dict[str, Any]]:
    """One entry per target with a measurement: name, measured value, must, aim, unit and verdict."""
    return [
        {
            "name": target.title,
            "measured": value,
            "must": target.must,
            "aim": target.aim,
            "unit": target.unit,
            "verdict": target.verdict(value),
        }
        for target in TARGETS
        if (value := measured.get(target.key)) is not None
    ]
