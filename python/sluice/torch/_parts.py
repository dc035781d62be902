"""What an attached model runs on: tracks, their queue and who serves it, aggregators, a stager."""

from __future__ import annotations

import time

import torch

from sluice.torch import _native
from sluice.torch._errors import SluiceError
from sluice.torch._ranks import Ranks
from sluice.torch._stager import Stager
from sluice.torch._steps import ECHO_SECONDS, Steps
from sluice.torch._stream import Stream
from sluice.torch._tracks import Server, Track, knows_most
from sluice.torch._work import DenseWork, Work

PATIENCE = 5.0  # seconds that threads get to end


class Parts:
    """All of it, made and ended together."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.tracks: list[Track] = []
        self.stream: Stream | None = None
        self._queue: _native.Queue | None = None
        self._servers: list[Server] = []
        self._stager: Stager | None = None

    def start(self, ranks: Ranks) -> _native.Queue:
        """Once all tracks are there."""
        place = ranks.place
        self._queue = _native.Queue([track.port for track in self.tracks], place.wave)
        for served in [self.tracks] if place.carries else [[track] for track in self.tracks]:
            self._servers.append(Server(served, self._queue, ranks, self.steps))
        return self._queue

    def make_room(self) -> None:
        """For waves on a device as they are by now, while nothing is on its way."""
        for track in self.tracks:
            track.make_room()

    def give_up(self, ranks: Ranks) -> None:
        """When a rank has gone: nobody waits for it on a device, nor for what cannot end without
        it, such as a collective of the user's before a gradient that a wave needs. A track that
        waits there may not wake at all. A thread does this, since ending a communicator takes
        time, and words about the loss come meanwhile."""
        if ranks.place.is_cuda:  # Every thread begins with device 0.
            torch.cuda.set_device(ranks.place.device)
        ranks.stop()
        for track in self.tracks:
            track.collectives.give_up()
        if not self.steps.is_busy() or self.steps.failing.wait(ECHO_SECONDS):
            return  # A track that was in a collective knows more of it.
        position = knows_most(self.tracks).position
        try:
            ranks.check(lambda: position)
        except SluiceError as error:
            self.steps.fail(position, error)

    def put(self, work: Work, is_last: bool) -> None:
        """In the order that the hook got them, on every rank."""
        if isinstance(work, DenseWork) and work.buffer.is_cuda and self._stager is None:
            self._stager = Stager(self.steps, torch.device("cuda", torch.cuda.current_device()))
        if self._stager is not None:
            self._stager.put(work, is_last)
            return
        if isinstance(work, DenseWork):
            work.unpack()
        self.steps.put(work, is_last)

    def await_rest(self) -> None:
        """Until nothing is on its way."""
        if self._stager is not None:
            self._stager.drain()
        self.steps.await_rest()

    def close(self) -> None:
        """Ends the threads: after what they were given, or after a failure now; in either case
        soon."""
        if self._stager is not None:
            self._stager.close()
        if self._queue is not None:
            self._queue.close(at_once=self.steps.error is not None)
            self._join()
            if self._is_served():  # in what waits for a rank
                self._queue.close(at_once=True)
                for track in self.tracks:
                    track.collectives.interrupt()
                if self.stream is not None:
                    self.stream.wake()
                self._join()
        if self._queue is not None and not self._is_served():
            self._queue.free()
        for server in self._servers:
            server.leave()
        if not self._servers:  # It did not come that far.
            for track in self.tracks:
                track.leave()
        if self.stream is not None:
            self.stream.close()

    def _is_served(self) -> bool:
        return any(server.is_elsewhere() for server in self._servers)

    def _join(self) -> None:
        until = time.monotonic() + PATIENCE
        for server in self._servers:
            server.join(until)
