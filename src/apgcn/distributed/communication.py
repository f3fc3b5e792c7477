"""Who trains together, and how do they talk? The ranks that `torchrun` started, each with its rows of the graph.

Rows of the graph that are sent are counted. A rank that dies closes its connections, and the others hear that in their
next word to it.
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

from apgcn._utils.process import leave_at_once
from apgcn.errors import ApgcnError, InvalidInput, RankDied
from apgcn.ops.devices import resolve

MEET_WITHIN = timedelta(minutes=10)
ANSWER_WITHIN = timedelta(hours=3)  # or a rank is taken for dead: all wait while one divides the graph or writes
ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass
class Traffic:
    """What this rank has said to others.

    Attributes
    ----------
    bytes : int
        Of rows of the graph, in both directions of the computation.
    exchanges : int
        How often rows were exchanged.
    seconds : float
        Spent on all words, waiting for slower ranks included.
    """

    bytes: int = 0
    exchanges: int = 0
    seconds: float = 0.0

    def since(self, before: Traffic) -> Traffic:
        """What was said after that."""
        return Traffic(*(now - then for now, then in zip(vars(self).values(), vars(before).values(), strict=True)))


@dataclass(frozen=True, eq=False)
class Communicator:
    """The ranks, seen from one of them.

    Attributes
    ----------
    rank, size : int
    device : torch.device
        Of this rank.
    traffic : Traffic
    """

    rank: int
    size: int
    device: torch.device
    traffic: Traffic = field(default_factory=Traffic)

    def sums(self, *values: Tensor) -> list[Tensor]:
        """Each tensor summed over all ranks, the same everywhere."""
        packed = torch.cat([value.detach().double().flatten() for value in values])
        if self.size > 1:
            with self._talking():
                dist.all_reduce(packed)
        parts = packed.split([value.numel() for value in values])
        return [part.view_as(value).to(value.dtype) for part, value in zip(parts, values, strict=True)]

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Sum tensors over all ranks, in place and in one word."""
        if not tensors or self.size == 1:
            return
        packed = torch.cat([one.flatten() for one in tensors])
        with self._talking():
            dist.all_reduce(packed)
        for one, part in zip(tensors, packed.split([one.numel() for one in tensors]), strict=True):
            one.copy_(part.view_as(one))

    def all_to_all(self, rows: Tensor, *, sent: list[int], received: list[int], counted: bool = True) -> Tensor:
        """Send so many of these rows to each rank, in the order of the ranks, and return what comes from each."""
        if self.size == 1:
            return rows
        heard = rows.new_empty(sum(received), *rows.shape[1:])
        with self._talking():
            dist.all_to_all_single(heard, rows.contiguous(), received, sent)
        if counted:
            self.traffic.bytes += (len(rows) - sent[self.rank]) * rows[:1].numel() * rows.element_size()
            self.traffic.exchanges += 1
        return heard

    def all_gather(self, value: Any) -> list[Any]:
        """What every rank says, in the order of the ranks; of anything that JSON can hold."""
        words = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8).to(self.device)
        lengths = [torch.empty(1, dtype=torch.int64, device=self.device) for _ in range(self.size)]
        with self._talking():
            dist.all_gather(lengths, torch.tensor([len(words)], device=self.device))
            longest = int(max(lengths))
            heard = [torch.empty(longest, dtype=torch.uint8, device=self.device) for _ in range(self.size)]
            dist.all_gather(heard, functional.pad(words, (0, longest - len(words))))
        texts = (bytes(one[: int(length)].cpu().numpy()) for one, length in zip(heard, lengths, strict=True))
        return [json.loads(text) for text in texts]

    def array_from_first(self, array: np.ndarray | None, *, length: int, dtype: Any) -> np.ndarray:
        """An array of rank 0, everywhere."""
        kind = torch.from_numpy(np.empty(0, dtype)).dtype
        tensor = None if array is None else torch.from_numpy(array)
        return self.from_first(tensor, shape=(length,), dtype=kind).numpy()

    def from_first(self, tensor: Tensor | None, *, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A tensor of rank 0, everywhere, beside the processor."""
        there = torch.empty(shape, dtype=dtype) if tensor is None else tensor
        on_device = there.to(self.device).contiguous()
        raw = on_device.view(-1).view(torch.uint8)  # not every kind of number can be sent
        with self._talking():
            dist.broadcast(raw, src=0)
        return on_device.cpu()

    def to_first(self, rows: Tensor) -> Tensor:
        """The rows of all ranks at rank 0, in the order of the ranks; elsewhere none."""
        sizes = self.all_gather(len(rows))
        nobody = [0] * self.size
        heard = self.all_to_all(
            rows, sent=[len(rows), *nobody[1:]], received=sizes if self.rank == 0 else nobody, counted=False
        )
        return heard.cpu()

    def together(self, work: Callable[[], Any]) -> Any:
        """What the work gives here, if it fails nowhere; a mistake of one rank is told by all."""
        found, mistake = None, None
        try:
            found = work()
        except (ApgcnError, OSError, UnicodeError) as error:
            mistake = str(error)
        mistakes = [(rank, one) for rank, one in enumerate(self.all_gather(mistake)) if one]
        if mistakes:
            rank, sentence = mistakes[0]
            raise InvalidInput(sentence if len(mistakes) == self.size else f"rank {rank}: {sentence}")
        return found

    @contextmanager
    def _talking(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)  # a word is only queued until then
        except (RuntimeError, ValueError) as error:  # gloo and nccl have many words for it
            raise RankDied(
                f"rank {self.rank} of {self.size} must hear from the others, but one of them has ended or says nothing "
                f"({_short(error)})."
            ) from error
        finally:
            self.traffic.seconds += time.perf_counter() - started


_was_there = False


def was_there() -> bool:
    """Whether this process has been one of several."""
    return _was_there


@contextmanager
def world(device: str = "cpu") -> Iterator[Communicator]:
    """The ranks that `torchrun` started, until the block is left.

    Raises
    ------
    InvalidInput
        If nobody started us as one of several.
    """
    missing = [name for name in ENVIRONMENT if name not in os.environ]
    if missing:
        raise InvalidInput(
            "--distributed must be started once for every rank: torchrun --nproc-per-node 2 -m apgcn train ... "
            f"--distributed (there is no {missing[0]} in the environment)."
        )
    try:
        rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        known = 0 <= rank < size
    except ValueError:
        known = False
    if not known:
        told = ", ".join(f"{name}={os.environ[name]}" for name in ENVIRONMENT)
        raise InvalidInput(f"a rank must be a number below that of all ranks, but the environment says {told}.")
    global _was_there
    place = resolve(device)
    if place.index is not None:
        raise InvalidInput(f"with --distributed the device must be cpu, or cuda, one for each rank, got {device}.")
    _was_there = True
    leave_at_once()  # threads of connections, if a rank is lost
    if place.type == "cuda":
        place = resolve(f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}")
        torch.cuda.set_device(place)
    try:
        store = _meeting_place(rank, size, port)
        engine = "nccl" if place.type == "cuda" else "gloo"
        dist.init_process_group(engine, store=store, rank=rank, world_size=size, timeout=MEET_WITHIN)
        dist.distributed_c10d._set_pg_timeout(ANSWER_WITHIN)
    except (RuntimeError, ValueError) as error:
        raise RankDied(f"the ranks must find each other, but do not ({_short(error)}).") from error
    try:
        yield Communicator(dist.get_rank(), dist.get_world_size(), place)
    finally:
        dist.destroy_process_group()


def _meeting_place(rank: int, size: int, port: int) -> dist.Store:
    """Where ranks tell each other how to be reached.

    When torchrun starts ranks again, what those before them have left there is still to be read: every attempt has a
    place of its own.
    """
    theirs = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # torchrun keeps it, and not rank 0
    address, first = os.environ["MASTER_ADDR"], rank == 0 and not theirs
    store = dist.TCPStore(address, port, size, is_master=first, timeout=MEET_WITHIN)
    return dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)}", store)


def _short(error: Exception) -> str:
    lines = re.sub(r"\[[^\]]*/[^\]]*\]\s*", "", str(error)).strip().splitlines()  # without places in their source
    return lines[0].split(". ")[0][:100].rstrip(". ") if lines else type(error).__name__
