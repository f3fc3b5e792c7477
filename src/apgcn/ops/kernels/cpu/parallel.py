"""Kernels that run on several threads.

A parallel kernel takes three more arguments: `thread`, from 0 to `threads - 1`, the number of `threads`, and `sync`,
the counters of its barriers. Each thread computes some of the rows; `barrier(sync, threads)` waits until all have
arrived. Every value is computed by one thread, in one order, so that their number does not change a bit of it.

The threads are Python's, and the kernels release the interpreter lock. They are created on first use and wait in
between. They are not OpenMP's, as numba's `prange` would use here: a fork or a second OpenMP runtime (PyTorch's) would
break or slow those down, and their waiting threads occupy the cores. If another thread of the program is in a parallel
kernel already, a kernel runs on one thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from apgcn._utils.process import defer_signals
from apgcn.ops.kernels.cpu.jit import kernel_helper
from apgcn.ops.threads import get_num_threads

THREAD_NANOSECONDS = 100_000  # work that is worth a thread; a launch costs some 20 microseconds per thread
SPINS = 2_000  # turns of a waiting thread before it offers its core to others
INT64 = ir.IntType(64)


def choose_threads(nanoseconds: float) -> int:
    """The number of threads for a kernel that takes about so long on one thread."""
    return max(1, min(get_num_threads(), int(nanoseconds / THREAD_NANOSECONDS)))


def parallel_kernel(function: Callable | None = None, *, exact: bool = False) -> Callable[..., Any]:
    """Compile a function (*arguments, thread, threads, sync); the result is called with the number of threads first.

    With `exact` its arithmetic is not rearranged, so that the position of a value in an array does not matter.
    """
    if function is None:
        return partial(parallel_kernel, exact=exact)
    dispatcher = kernel_helper(function, nogil=True, exact=exact)

    def call(threads: int, *arguments: Any) -> None:
        if not dispatcher.overloads:
            with defer_signals():
                dispatcher(*arguments, 0, 1, np.zeros(2, np.int64))
        elif threads == 1 or not _team.launch(dispatcher, threads, arguments):
            dispatcher(*arguments, 0, 1, np.zeros(2, np.int64))

    return call


class _Team:
    """Threads 1, 2, ... of the present kernel; thread 0 is the one that calls it."""

    def __init__(self) -> None:
        self._in_use = threading.Lock()
        self._queues: list[SimpleQueue] = []

    def launch(self, dispatcher: Any, threads: int, arguments: tuple[Any, ...]) -> bool:
        """Run a kernel on all threads and wait for them; return False, having done nothing, if they are busy."""
        if not self._in_use.acquire(blocking=False):
            return False
        try:
            while len(self._queues) < threads - 1:
                self._queues.append(SimpleQueue())
                threading.Thread(
                    target=_work, args=(self._queues[-1],), name=f"apgcn-{len(self._queues)}", daemon=True
                ).start()
            sync = np.zeros(2, np.int64)
            done = threading.Semaphore(0)
            for thread, queue in enumerate(self._queues[: threads - 1], start=1):
                queue.put((dispatcher, (*arguments, thread, threads, sync), done))
            dispatcher(*arguments, 0, threads, sync)
            for _ in range(threads - 1):
                done.acquire()
        finally:
            self._in_use.release()
        return True


def _work(queue: SimpleQueue) -> None:
    while True:
        dispatcher, arguments, done = queue.get()
        dispatcher(*arguments)
        del dispatcher, arguments
        done.release()


_team = _Team()


def _renew_team() -> None:
    """A child process has none of its parent's threads."""
    global _team
    _team = _Team()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_team)


@intrinsic
def atomic_add(typing, array, index, value):
    """Add a value to array[index] as one operation, and return what was there before."""

    def generate(context, builder, signature, args):
        pointer = _element_pointer(context, builder, signature, args)
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int64(array, types.int64, types.int64), generate


@intrinsic
def atomic_load(typing, array, index):
    """array[index], read anew at every call."""

    def generate(context, builder, signature, args):
        return builder.load_atomic(_element_pointer(context, builder, signature, args), "seq_cst", 8)

    return types.int64(array, types.int64), generate


def _element_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


@intrinsic
def _yield_core(typing):
    """Offer the core to other threads: `sched_yield` of the C library, `SwitchToThread` of Windows."""

    def generate(context, builder, signature, args):
        function_type = ir.FunctionType(ir.IntType(32), [])
        name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), [])
        return context.get_dummy_value()

    return types.void(), generate


@kernel_helper
def barrier(sync, threads):
    """Wait until all threads have arrived; sync[0] counts those that wait, sync[1] the barriers that were passed."""
    if threads == 1:
        return
    passed = atomic_load(sync, 1)
    if atomic_add(sync, 0, 1) == threads - 1:
        atomic_add(sync, 0, -threads)
        atomic_add(sync, 1, 1)
        return
    spins = 0
    while atomic_load(sync, 1) == passed:
        spins += 1
        if spins > SPINS:
            _yield_core()


@kernel_helper
def thread_range(count, thread, threads):
    """First and last + 1 of the items of a thread, when `count` items are divided evenly."""
    return count * thread // threads, count * (thread + 1) // threads


@kernel_helper
def thread_range_by_weight(cumulative, count, thread, threads):
    """The same for items of unequal weight; `cumulative[i]` is the weight of the items before i, and of i items."""
    return _first_at_least(cumulative, count, thread, threads), _first_at_least(cumulative, count, thread + 1, threads)


@kernel_helper
def _first_at_least(cumulative, count, thread, threads):
    """The first item before which lies at least the fraction thread / threads of the weight of `count` items."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if np.int64(cumulative[middle]) * threads < np.int64(cumulative[count]) * thread:
            low = middle + 1
        else:
            high = middle
    return low if thread < threads else count
