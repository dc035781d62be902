"""Tracks: ports that a queue's waves are spread over, each with a process group of its own or, over
NCCL, with a share of one; and the threads that serve them."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

import torch

from sluice.torch import _native
from sluice.torch._collectives import Collectives
from sluice.torch._errors import SluiceError, may_be_own
from sluice.torch._nccl import NcclCollectives
from sluice.torch._placement import active
from sluice.torch._ranks import Ranks
from sluice.torch._steps import ECHO_SECONDS, Steps
from sluice.torch._stream import Stream

PHASES = ("encode", "network", "combine", "decode")
COUNTED = ("launches", "launches_most", "waves", "uploaded_bytes", "grown")  # by a device


class Track:
    """One port, with what it runs on."""

    def __init__(self, index: int, ranks: Ranks, steps: Steps, memory: _native.Memory,
                 aggregators: Stream | None) -> None:
        self.index = index
        self.ranks, self.steps = ranks, steps
        self.stream = ranks.place.stream()  # of a device
        self.collectives = self._make_collectives()
        self.aggregators = aggregators
        self._turn = ""  # where the turn in hand is
        self.port = self._make_port(memory)
        if ranks.place.on_device:
            ranks.stops.append(self.port.stop)

    def _make_collectives(self) -> Collectives:
        group = self.ranks.group_of(self.index)
        if self.ranks.place.backend == "nccl":
            return NcclCollectives(self.ranks, group, lambda: self.position, self.index,
                                   self.stream)
        return Collectives(self.ranks, group, lambda: self.position, self.index)

    def _make_port(self, memory: _native.Memory) -> _native.Port:
        place, timeout = self.ranks.place, self.ranks.timeout
        if self.aggregators is None and place.on_device:
            with self.collectives.ahead():
                return _native.Port.over_device(memory, self.collectives.callbacks,
                                                self.stream.cuda_stream if self.stream else 0,
                                                place.carries, place.wave, timeout)
        if self.aggregators is None:
            return _native.Port.over(memory, self.collectives.callbacks, timeout)
        try:
            return self.aggregators.port(self.index, memory)
        # ValueError: a host that has no address here.
        except (SluiceError, ValueError, MemoryError) as error:
            raise self.ranks.failed("attach, joining the aggregators", error,
                                    self.ranks.drop_all) from None

    def make_room(self) -> None:
        """Of a device, between steps: for waves of the tensors and codecs that there are by now."""
        if self.ranks.place.on_device:
            with self.collectives.ahead():
                self.port.reserve()

    @property
    def position(self) -> str:
        """Where it is, in words."""
        where = self._turn or self.steps.position(self.collectives.number)
        return f"{where}, {self.collectives.doing}" if self.collectives.doing else where

    # --- the thread that serves it ---

    def of_port(self, error: Exception) -> BaseException:
        """What to raise for a port's error. Of an echo of another track's failure, and of what a
        callback raised on purpose, nothing is known here that could be added."""
        cause = self.collectives.error
        if self.collectives.closing or (cause is None and isinstance(error, _native.Unavailable)
                                        and self.steps.is_echo()):
            return error
        self.steps.failing.set()
        is_lost = isinstance(cause, (RuntimeError, ValueError)) if cause is not None else \
            self._waited_in_vain(error)
        if isinstance(cause, SluiceError) or not is_lost:
            return cause or error
        return self._explained(cause or error)

    def _explained(self, error: Exception) -> SluiceError:
        """What to raise for an error that may follow from what another rank did."""
        explain = self.ranks.failed if may_be_own(error) else self.ranks.lost
        return explain(self.position, error, self.hang_up)

    def _waited_in_vain(self, error: Exception) -> bool:
        """Whether an error of the library itself follows from what another rank did."""
        if self.aggregators is not None:
            return isinstance(error, SluiceError)
        return self.ranks.place.on_device and (isinstance(error, _native.TimedOut) or
                                               bool(self.ranks.watch.doom()))

    def run(self, order: _native.Order, entries: ctypes.Array) -> _native.Report:
        """Averages a bucket within a turn."""
        try:
            return self.port.run(order, entries)
        except SluiceError as error:
            raise self.of_port(error) from None

    def turn(self, work: Any, number: int) -> None:
        """A turn of this track: collectives of the work's own."""
        self._turn, self.collectives.doing = work.where, ""
        try:
            work.run(self, number)
        except (RuntimeError, ValueError) as error:
            if isinstance(error, SluiceError) or not self.collectives.doing:
                raise
            self.steps.failing.set()
            raise self._explained(error) from None
        self._turn = ""

    def check(self) -> None:
        """Raises if what came over its process group may be anything."""
        if self.ranks.place.carries and self.ranks.are_groups_gone:
            self.ranks.check(lambda: self.position)

    def active(self) -> Any:
        """Within, what is done on a device is done in the order of what the port does there."""
        return active(self.stream)

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

    def device_figures(self) -> dict[str, int]:
        """What its device has done."""
        counts = self.port.device_counts()
        return {name: getattr(counts, name) for name in COUNTED}

    def leave(self) -> None:
        """Frees what a thread used that is gone."""
        self.port.close()
        self.collectives.close()


def knows_most(tracks: list[Track]) -> Track:
    """Of a failure: a callback of its has failed, or it is still busy."""
    knows = [track for track in tracks if track.collectives.error is not None]
    busy = [track for track in tracks if track.collectives.doing]
    return (knows or busy or tracks)[0]


class Server:
    """A thread that serves a queue: of one track, or of all of them so that their collectives start
    in one order."""

    def __init__(self, tracks: list[Track], queue: _native.Queue, ranks: Ranks,
                 steps: Steps) -> None:
        self.tracks = tracks
        self._queue, self._ranks, self._steps = queue, ranks, steps
        name = "all" if ranks.place.carries else tracks[0].index
        self._thread = threading.Thread(target=self._work, daemon=True,
                                        name=f"sluice-track-{name}")
        self._thread.start()

    def is_elsewhere(self) -> bool:
        """Whether it may still use what tracks have."""
        return self._thread.is_alive() and self._thread is not threading.current_thread()

    def join(self, until: float) -> None:
        if self.is_elsewhere():
            self._thread.join(max(0.0, until - time.monotonic()))

    def leave(self) -> None:
        if not self.is_elsewhere():
            for track in self.tracks:
                track.leave()

    # --- its thread ---

    def _work(self) -> None:
        if self._ranks.place.is_cuda:  # Every thread begins with device 0.
            torch.cuda.set_device(self._ranks.place.device)
        try:
            event = _native.Event()
            while self._serve(event):
                self._steps.take(self._track_of(event), event)
            if self._ranks.watch.doom():  # Somebody else's end has closed the queue.
                self._hang_up()
                # A track that was in a collective knows more of it.
                if self._steps.is_busy() and not self._steps.failing.wait(ECHO_SECONDS):
                    self._ranks.check(lambda: self.tracks[0].position)
        except BaseException as error:
            self._fail(error)

    def _serve(self, event: _native.Event) -> bool:
        """Whether there is something to do."""
        try:
            if self._ranks.place.carries:
                self._queue.serve_all(event)
            else:
                self._queue.serve(self.tracks[0].index, event)
        except (SluiceError, ValueError, MemoryError) as error:
            raise knows_most(self.tracks).of_port(error) from None
        return event.kind != _native.CLOSED

    def _track_of(self, event: _native.Event) -> Track:
        return self.tracks[event.port if self._ranks.place.carries else 0]

    def _fail(self, error: BaseException) -> None:
        if any(track.collectives.closing for track in self.tracks):  # The process ends.
            return
        # Before a future is completed: whoever waits for it may look at gradients and residuals.
        self._ranks.stop()
        if not (isinstance(error, _native.Unavailable) and self._steps.failing.is_set()):
            if self.tracks[0].aggregators is not None:
                self.tracks[0].aggregators.give_up()
            self._steps.fail(knows_most(self.tracks).position, error)
        self._hang_up()

    def _hang_up(self) -> None:
        for track in self.tracks:
            track.hang_up()
