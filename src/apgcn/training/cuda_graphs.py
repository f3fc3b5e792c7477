"""CUDA graphs of the work of an epoch, and times measured with the device synchronised.

On a GPU most kernels of an epoch take less time than their launch. So the work is captured as a CUDA graph and replayed
with one launch: its inputs and outputs must keep their addresses, and the host must not read from the device meanwhile.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Generic, TypeVar

import torch

Result = TypeVar("Result")


class GraphMemoryPool:
    """Memory that several CUDA graphs share for intermediate tensors, one after the other."""

    def __init__(self, device: torch.device):
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None


class CUDAGraphRunner(Generic[Result]):
    """Runs the same function repeatedly on the same tensors, which it changes in place; on a GPU as a CUDA graph.

    The returned tensors are overwritten by the next call. The first call runs eagerly, as a warm-up; the function is
    captured at the first later call that allows it. On a CPU every call runs eagerly.

    Runners that share a memory pool must not run at the same time, and what one returns must be read before another
    runs.
    """

    def __init__(self, memory: GraphMemoryPool):
        self._memory = memory
        self._captures = memory.pool is not None
        self._has_run = False
        self._captured: tuple[torch.cuda.CUDAGraph, Result] | None = None

    def __call__(self, function: Callable[[], Result], *, capture: bool = True) -> Result:
        """Run the function, which must be the same in every call."""
        if self._captured is None and self._captures and self._has_run and capture:
            self._capture(function)
        if self._captured is None:
            self._has_run = True
            return function()
        graph, result = self._captured
        graph.replay()
        return result

    def _capture(self, function: Callable[[], Result]) -> None:
        torch.cuda.empty_cache()  # memory of the warm-up
        graph = torch.cuda.CUDAGraph()
        try:
            graph.capture_begin(pool=self._memory.pool)
            try:
                result = function()
            finally:
                graph.capture_end()
        except RuntimeError as error:
            warnings.warn(f"an epoch could not be captured as a CUDA graph, so it runs slower: {error}", stacklevel=2)
            self._captures = False
        else:
            self._captured = graph, result


@contextmanager
def side_stream(device: torch.device) -> Iterator[None]:
    """Run the block on a CUDA stream of its own, which graph capture requires; no effect on a CPU."""
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


def measure_ms(*functions: Callable[[], object], device: torch.device) -> tuple[float, ...]:
    """Call the functions in order, and return the time of each in milliseconds."""
    times = [synchronized_time(device)]
    for function in functions:
        function()
        times.append(synchronized_time(device))
    return tuple(1000 * (end - start) for start, end in pairwise(times))


def synchronized_time(device: torch.device) -> float:
    """The time in seconds after all queued work of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
