"""Tracks: threads of our own that serve a queue, each with a process group, and a port over it or
to aggregators. What they run, and in which order, the queue knows."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import torch

from sluice.torch import _native
from sluice.torch._collectives import Collectives
from sluice.torch._errors import SluiceError
from sluice.torch._ranks import Ranks
from sluice.torch._steps import ECHO_SECONDS, Steps
from sluice.torch._stream import Stream

PHASES = ("encode", "network", "combine", "decode")


class Track:
    """One thread, one process group, one port."""

    def __init__(self, index: int, ranks: Ranks, steps: Steps, memory: _native.Memory,
                 stream: Stream | None) -> None:
        self.index = index
        self.ranks, self.steps = ranks, steps
        self.collectives = Collectives(ranks, ranks.groups[index], lambda: self.position)
        self._stream = stream
        self._turn = ""  # where the turn in hand is
        self._thread: threading.Thread | None = None
        self.port = self._make_port(memory)

    def _make_port(self, memory: _native.Memory) -> _native.Port:
        if self._stream is None:
            return _native.Port.over(memory, self.collectives.callbacks, self.ranks.timeout)
        try:
            return self._stream.port(self.index, memory)
        # ValueError: a host that has no address here.
        except (SluiceError, ValueError, MemoryError) as error:
            raise self.ranks.failed("attach, joining the aggregators", error,
                                    self.ranks.drop_all) from None

    def start(self, queue: _native.Queue) -> None:
        self._thread = threading.Thread(target=self._work, args=(queue,), daemon=True,
                                        name=f"sluice-track-{self.index}")
        self._thread.start()

    @property
    def position(self) -> str:
        """Where it is, in words."""
        where = self._turn or self.steps.position(self.collectives.number)
        return f"{where}, {self.collectives.doing}" if self.collectives.doing else where

    # --- its thread ---

    def _work(self, queue: _native.Queue) -> None:
        if self.ranks.device.type == "cuda":  # Every thread begins with device 0.
            torch.cuda.set_device(self.ranks.device)
        try:
            event = _native.Event()
            while self._serve(queue, event):
                self.steps.take(self, event)
            if self.ranks.watch.doom():  # Somebody else's end has closed the queue.
                self.hang_up()
                # A track that was in a collective knows more of it.
                if self.steps.is_busy() and not self.steps.failing.wait(ECHO_SECONDS):
                    self.ranks.check(lambda: self.position)
        except BaseException as error:
            self._fail(error)

    def _serve(self, queue: _native.Queue, event: _native.Event) -> bool:
        """Whether there is something to do."""
        try:
            queue.serve(self.index, event)
        except (SluiceError, ValueError, MemoryError) as error:
            raise self._of_port(error) from None
        return event.kind != _native.CLOSED

    def _of_port(self, error: Exception) -> BaseException:
        """What to raise for a port's error. Of an echo of another track's failure, and of what a
        callback raised on purpose, nothing is known here that could be added."""
        cause = self.collectives.error
        if self.collectives.closing or (cause is None and isinstance(error, _native.Unavailable)
                                        and self.steps.is_echo()):
            return error
        self.steps.failing.set()
        is_lost = isinstance(cause, (RuntimeError, ValueError)) if cause is not None else \
            self._stream is not None and isinstance(error, SluiceError)
        if isinstance(cause, SluiceError) or not is_lost:
            return cause or error
        return self.ranks.lost(self.position, cause or error, self.hang_up)

    def run(self, order: _native.Order, entries: ctypes.Array) -> _native.Report:
        """Averages a bucket within a turn."""
        try:
            return self.port.run(order, entries)
        except SluiceError as error:
            raise self._of_port(error) from None

    def turn(self, work: Any, number: int) -> None:
        """A turn of this track: collectives of the work's own."""
        self._turn = work.where
        try:
            work.run(self, number)
        except (RuntimeError, ValueError) as error:
            if isinstance(error, SluiceError) or not self.collectives.doing:
                raise
            self.steps.failing.set()
            raise self.ranks.lost(self.position, error, self.hang_up) from None
        self._turn = ""

    def _fail(self, error: BaseException) -> None:
        if self.collectives.closing:  # The process ends.
            return
        if not (isinstance(error, _native.Unavailable) and self.steps.failing.is_set()):
            if self._stream is not None:
                self._stream.give_up()
            self.steps.fail(self.position, error)
        self.hang_up()

    def hang_up(self) -> None:
        """After a failure, so that ranks which wait for this one fail at once."""
        if not getattr(self.steps.error, "is_known_to_all", False):
            self.collectives.hang_up()

    # --- any thread ---

    def figures(self) -> dict[str, float]:
        """What it has measured."""
        port, own = self.port.traffic(), self.collectives
        seconds = {phase: getattr(port, f"{phase}_seconds") for phase in PHASES}
        seconds["network"] += own.seconds
        return {**seconds, "bytes_sent": port.sent_bytes + own.bytes_sent,
                "bytes_received": port.received_bytes + own.bytes_received,
                "collectives": port.collectives + own.count, "retransmits": port.retransmits}

    def is_elsewhere(self) -> bool:
        """Whether its thread may still use what it has."""
        return self._thread is not None and self._thread.is_alive() and \
            self._thread is not threading.current_thread()

    def join(self, until: float) -> None:
        if self.is_elsewhere():
            self._thread.join(max(0.0, until - time.monotonic()))

    def leave(self) -> None:
        """Frees what its thread used, unless that is still there."""
        if not self.is_elsewhere():
            self.port.close()
            self.collectives.close()

