"""Does the head of a Ray cluster answer? Ray itself would wait for it, and then abort this process."""

from __future__ import annotations

import _thread
import os
import socket
import sys
import threading
import time

from apgcn.errors import NoCluster
from apgcn.leaving import leave_at_once

ANSWERS_WITHIN = 5.0  # seconds, or nobody does
KNOCK_EVERY = 2.0  # seconds
HEARD_WITHIN = 10.0  # seconds, or an interruption was not
BACK_WITHIN = 20.0  # seconds, or a head that was there is lost


def greets(address: str) -> bool:
    """Whether who listens there greets as gRPC does, which is HTTP/2: with settings, the fourth kind of frame."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=ANSWERS_WITHIN) as line:
        line.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        try:
            return line.recv(9)[3:4] == b"\4"
        except OSError:
            return False


def answers(address: str) -> bool:
    """Whether somebody listens there."""
    try:
        greets(address)
    except OSError:
        return False
    return True


class Head:
    """The machine that a cluster hangs on, from now on kept in sight.

    If it does not answer for some time, `lost` is true and this process is interrupted, as by Ctrl-C, or ended where it
    does not hear that: else Ray would wait, and abort it after a minute.
    """

    def __init__(self, address: str):
        self.address, self.lost = address, False
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def sentence(self) -> str:
        """What is to be said when it is lost."""
        return (
            f"the head of the Ray cluster at {self.address} must answer, but does not any more; what is done is kept: "
            "when there is one, the same command goes on."
        )

    def forget(self) -> None:
        """It may go."""
        self._over.set()

    def _watch(self) -> None:
        heard = time.monotonic()
        while not self._over.wait(KNOCK_EVERY):
            if answers(self.address):
                heard = time.monotonic()
            elif time.monotonic() - heard > BACK_WITHIN:
                self.lost = True
                leave_at_once()  # Ray's threads would not let us go
                _thread.interrupt_main()
                if not self._over.wait(HEARD_WITHIN):  # some calls of Ray do not hear it
                    print(f"apgcn: {self.sentence}", file=sys.stderr, flush=True)
                    os._exit(NoCluster.exit_status)
                return
