"""How is the same work done every epoch without asking for each of its parts again?

On a GPU most parts are shorter than the asking. So the work is recorded as a CUDA graph and repeated as one piece: what
it reads and writes must stay where it is, and the host must not look at it meanwhile.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class GraphMemoryPool:
    """Where recorded works keep what they need between the beginning and the end, one after the other."""

    def __init__(self, device: torch.device):
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None


class CUDAGraphRunner(Generic[Result]):
    """Work to be done again and again on the same tensors, which it changes in place.

    What it returns is overwritten the next time. The first time it is done as it stands, so that everything it needs is
    there; then it is recorded, as soon as it may. On a processor it is always done as it stands.

    Works that share their `memory` must not run at the same time, and what one returns must be read before another
    runs.
    """

    def __init__(self, memory: GraphMemoryPool):
        self._memory = memory
        self._records = memory.pool is not None
        self._done_before = False
        self._recorded: tuple[torch.cuda.CUDAGraph, Result] | None = None

    def __call__(self, work: Callable[[], Result], *, record: bool = True) -> Result:
        """Do the work, which must be the same every time."""
        if self._recorded is None and self._records and self._done_before and record:
            self._record(work)
        if self._recorded is None:
            self._done_before = True
            return work()
        graph, result = self._recorded
        graph.replay()
        return result

    def _record(self, work: Callable[[], Result]) -> None:
        torch.cuda.empty_cache()  # what the first time left behind
        graph = torch.cuda.CUDAGraph()
        try:
            graph.capture_begin(pool=self._memory.pool)
            try:
                result = work()
            finally:
                graph.capture_end()
        except RuntimeError as error:
            warnings.warn(f"the work of an epoch is not recorded, which makes it slow: {error}", stacklevel=2)
            self._records = False
        else:
            self._recorded = graph, result


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Inside the block a GPU's work is queued apart from other work, which recording it demands."""
    if device.type != "cuda":
        yield
        return
    stream, before = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)
