"""What did an answer cost? Counted, and beside what all steps of all nodes cost."""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """What an answer cost.

    Attributes
    ----------
    node_steps : int
        How many states z_j^k were computed, k >= 1.
    messages : int
        How many times a node heard another one.
    multiply_adds : int
        Of listening: messages, a node's own voice, and the halting unit.
    seeds : int
        For how many nodes z^0 was computed.
    """

    node_steps: int
    messages: int
    multiply_adds: int
    seeds: int

    @classmethod
    def of(cls, node_steps: int, messages: int, *, channels: int, seeds: int) -> Work:
        return cls(node_steps, messages, channels * (messages + 2 * node_steps), seeds)

    @classmethod
    def fixed(cls, *, nodes: int, edges: int, steps: int, channels: int) -> Work:
        """When every node takes all steps; `edges` counts each direction."""
        return cls.of(steps * nodes, steps * edges, channels=channels, seeds=nodes)

    def beside(self, fixed: Work) -> str:
        """What it cost beside what all steps of all nodes cost, in words."""
        parts = (
            f"{cost:,} of {whole:,} {what} ({_percent(cost, whole)})"
            for cost, whole, what in (
                (self.node_steps, fixed.node_steps, "node-steps"),
                (self.messages, fixed.messages, "messages"),
                (self.multiply_adds, fixed.multiply_adds, "multiply-adds"),
            )
        )
        return "computed " + ", ".join(parts)

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        return Work(*(one + more for one, more in zip(self, other, strict=True)))


def _percent(part: int, whole: int) -> str:
    percent = 100 * part / max(1, whole)
    return f"{percent:.1f} %" if percent >= 0.05 or not part else "under 0.1 %"
