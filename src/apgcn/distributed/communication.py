"""Communication between the ranks that `torchrun` started: collective operations, counted traffic, and lost ranks.

Only rows of the graph count as traffic. A rank that dies closes its connections, so the next collective operation of
the others fails with `RankDied`. Public functions of `torch.distributed` are used throughout.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from apgcn._utils.process import request_immediate_exit
from apgcn.errors import ApgcnError, InvalidInput, RankDied
from apgcn.ops.devices import resolve_device

RENDEZVOUS_TIMEOUT = timedelta(minutes=10)
COLLECTIVE_TIMEOUT = timedelta(hours=3)  # all ranks wait while one partitions the graph or writes the model
ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass
class Traffic:
    """What this rank has sent to the others.

    Attributes
    ----------
    bytes : int
        Of rows of the graph, in forward and backward passes.
    exchanges : int
        Number of halo exchanges.
    seconds : float
        Time in all collective operations, waiting for slower ranks included.
    """

    bytes: int = 0
    exchanges: int = 0
    seconds: float = 0.0

    def since(self, start: Traffic) -> Traffic:
        """The traffic after `start`, an earlier copy of this object."""
        return Traffic(*(now - then for now, then in zip(vars(self).values(), vars(start).values(), strict=True)))


@dataclass(frozen=True, eq=False)
class Communicator:
    """Collective operations of all ranks; every rank must call them in the same order.

    Attributes
    ----------
    rank, size : int
        Index of this rank, and number of ranks.
    device : torch.device
        Of this rank.
    traffic : Traffic
    """

    rank: int
    size: int
    device: torch.device
    traffic: Traffic = field(default_factory=Traffic)

    def all_reduce(self, *values: Tensor) -> list[Tensor]:
        """Sum each tensor over all ranks, in double precision; every rank gets the same sums."""
        flat = torch.cat([value.detach().double().flatten() for value in values])
        if self.size > 1:
            with self._timed():
                dist.all_reduce(flat)
        totals = flat.split([value.numel() for value in values])
        return [total.view_as(value).to(value.dtype) for total, value in zip(totals, values, strict=True)]

    def all_reduce_(self, values: Sequence[Tensor]) -> None:
        """Sum tensors over all ranks in place, by one collective operation."""
        if not values or self.size == 1:
            return
        flat = torch.cat([value.flatten() for value in values])
        with self._timed():
            dist.all_reduce(flat)
        for value, total in zip(values, flat.split([value.numel() for value in values]), strict=True):
            value.copy_(total.view_as(value))

    def all_to_all(
        self, rows: Tensor, *, send_sizes: list[int], receive_sizes: list[int], count_traffic: bool = True
    ) -> Tensor:
        """Send rows to each rank, ordered by rank, and return the rows received from each.

        Parameters
        ----------
        rows : Tensor of shape (sum of send_sizes, ...)
        send_sizes, receive_sizes : list of int
            Number of rows to and from each rank.
        count_traffic : bool
        """
        if self.size == 1:
            return rows
        received = rows.new_empty(sum(receive_sizes), *rows.shape[1:])
        with self._timed():
            dist.all_to_all_single(received, rows.contiguous(), receive_sizes, send_sizes)
        if count_traffic:
            self.traffic.bytes += (len(rows) - send_sizes[self.rank]) * rows[:1].numel() * rows.element_size()
            self.traffic.exchanges += 1
        return received

    def all_gather(self, value: Any) -> list[Any]:
        """The values of all ranks, ordered by rank; anything that JSON can hold."""
        content = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        lengths = [torch.empty(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        with self._timed():
            dist.all_gather(lengths, torch.tensor([len(content)], device=self.device))
            longest = int(max(lengths))
            padded = [torch.empty(longest, dtype=torch.uint8, device=self.device) for _ in range(self.size)]
            dist.all_gather(padded, functional.pad(content, (0, longest - len(content))))
        return [
            json.loads(bytes(buffer[: int(length)].cpu().numpy()))
            for buffer, length in zip(padded, lengths, strict=True)
        ]

    def broadcast_array(self, array: np.ndarray | None, *, length: int, dtype: Any) -> np.ndarray:
        """An array of rank 0 on every rank; the others pass None."""
        torch_dtype = torch.from_numpy(np.empty(0, dtype)).dtype
        tensor = None if array is None else torch.from_numpy(array)
        return self.broadcast(tensor, shape=(length,), dtype=torch_dtype).numpy()

    def broadcast(self, tensor: Tensor | None, *, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of rank 0 on every rank, in the memory of the host; the others may pass None."""
        buffer = torch.empty(shape, dtype=dtype) if tensor is None else tensor
        on_device = buffer.to(self.device).contiguous()
        as_bytes = on_device.view(-1).view(torch.uint8)  # the backends cannot send every dtype
        with self._timed():
            dist.broadcast(as_bytes, src=0)
        return on_device.cpu()

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks on rank 0, ordered by rank; no rows elsewhere."""
        sizes = self.all_gather(len(rows))
        zeros = [0] * self.size
        gathered = self.all_to_all(
            rows,
            send_sizes=[len(rows), *zeros[1:]],
            receive_sizes=sizes if self.rank == 0 else zeros,
            count_traffic=False,
        )
        return gathered.cpu()

    def run_collectively(self, function: Callable[[], Any]) -> Any:
        """Call a function on every rank and return its result; if it fails on one rank, raise on all.

        Without this, the other ranks would wait for the one that has raised.
        """
        result, message = None, None
        try:
            result = function()
        except (ApgcnError, OSError, UnicodeError) as error:
            message = str(error)
        failures = [(rank, text) for rank, text in enumerate(self.all_gather(message)) if text]
        if failures:
            rank, text = failures[0]
            raise InvalidInput(text if len(failures) == self.size else f"rank {rank}: {text}")
        return result

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Add the time of a collective operation to the traffic; turn its failure into `RankDied`."""
        started = time.perf_counter()
        try:
            yield
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # until then the operation is only queued
        except (RuntimeError, ValueError) as error:  # gloo and nccl raise many kinds of both
            raise RankDied(
                f"rank {self.rank} of {self.size} must be connected to the others, but one of them has ended or does "
                f"not respond ({_first_line(error)})."
            ) from error
        finally:
            self.traffic.seconds += time.perf_counter() - started


_connected = False


def has_connected() -> bool:
    """Whether this process has been a rank of a training."""
    return _connected


@contextmanager
def connect_ranks(device: str = "cpu") -> Iterator[Communicator]:
    """Connect the ranks that `torchrun` started, for the duration of the block.

    Raises
    ------
    InvalidInput
        If this process was not started as a rank.
    RankDied
        If the ranks do not connect in time.
    """
    missing = [name for name in ENVIRONMENT if name not in os.environ]
    if missing:
        raise InvalidInput(
            "--distributed must be started once for every rank: torchrun --nproc-per-node 2 -m apgcn train ... "
            f"--distributed (there is no {missing[0]} in the environment)."
        )
    try:
        rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        valid = 0 <= rank < size
    except ValueError:
        valid = False
    if not valid:
        values = ", ".join(f"{name}={os.environ[name]}" for name in ENVIRONMENT)
        raise InvalidInput(f"a rank must be an integer below the number of ranks, but the environment has {values}.")
    global _connected
    torch_device = resolve_device(device)
    if torch_device.index is not None:
        raise InvalidInput(f"with --distributed the device must be cpu, or cuda, one for each rank, got {device}.")
    _connected = True
    request_immediate_exit()  # threads of connections to a lost rank would delay it
    if torch_device.type == "cuda":
        torch_device = resolve_device(f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}")
        torch.cuda.set_device(torch_device)
    try:
        store = _rendezvous(rank, size, port)
        backend = "nccl" if torch_device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=COLLECTIVE_TIMEOUT)
    except (RuntimeError, ValueError) as error:
        raise RankDied(f"the ranks must connect to each other, but do not ({_first_line(error)}).") from error
    try:
        yield Communicator(dist.get_rank(), dist.get_world_size(), torch_device)
    finally:
        dist.destroy_process_group()


def _rendezvous(rank: int, size: int, port: int) -> dist.Store:
    """The key-value store through which ranks exchange their addresses, once all of them have reached it.

    When torchrun restarts ranks, the keys of the previous attempt are still in its store, so every attempt has a prefix
    of its own. Waiting for all ranks here lets the rendezvous have a shorter timeout than collective operations.
    """
    torchrun_has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address, is_master = os.environ["MASTER_ADDR"], rank == 0 and not torchrun_has_store
    store = dist.TCPStore(address, port, size, is_master=is_master, timeout=RENDEZVOUS_TIMEOUT)
    attempt = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)
    attempt.set(f"rank {rank}", "connected")
    attempt.wait([f"rank {number}" for number in range(size)], RENDEZVOUS_TIMEOUT)
    return attempt


def _first_line(error: Exception) -> str:
    """The first sentence of an error message, without locations in source files."""
    lines = re.sub(r"\[[^\]]*/[^\]]*\]\s*", "", str(error)).strip().splitlines()
    return lines[0].split(". ")[0][:100].rstrip(". ") if lines else type(error).__name__
