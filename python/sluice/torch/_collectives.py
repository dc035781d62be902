"""Collectives of one process group: as the library asks for them, and for what is not its own.

Those of Gloo, with bytes of the host; _nccl.py has the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import os
import time
from typing import Any, Callable, ContextManager, Iterator, Sequence

import torch
import torch.distributed as dist

from sluice.torch import _native
from sluice.torch._buffers import Buffer, Reader
from sluice.torch._errors import SluiceError
from sluice.torch._groups import backend_of
from sluice.torch._ranks import Ranks

NAMES = {_native.ALL_TO_ALL: "all-to-all", _native.ALL_GATHER: "all-gather",
         _native.MAXIMUM: "all-reduce", _native.SUM: "all-reduce"}
AT_ONCE = datetime.timedelta(milliseconds=1)
END = 1 << 20  # Tags of messages between two ranks are below it, of those that never come above.
TRACKS_MAX = 16
BUFFERS = _native.GATHERED + 1 + _native.ON_DEVICE


class Collectives:
    """One collective at a time, on one thread. Those of several tracks may share a group: then
    one thread has them all, and each has an index."""

    sends_messages = True  # Large all-to-alls are messages: see _swap_messages.

    def __init__(self, ranks: Ranks, group: Any, position: Callable[[], str],
                 index: int = 0) -> None:
        self.doing = ""  # the collective in hand, or the last on a device, for words …
        self.number = 0  # … and the first bucket in it
        self.error: BaseException | None = None  # what a callback raised
        self.closing = False  # after interrupt()
        self.bytes_sent = self.bytes_received = self.count = 0  # besides those of the port
        self.seconds = 0.0
        self._ranks, self._group, self._position = ranks, group, position
        # What does it, without the way there through torch's dispatcher.
        self._backend = backend_of(group, ranks.device)
        self._buffers = self._share(self._make_buffers())
        self._is_ahead = False  # within ahead()
        self._reader = Reader() if ranks.place.is_cuda else None
        self._works: list[Any] = []  # of the collective in hand
        self._swaps = 0  # of messages, so far
        self._first_tag = index * (END // TRACKS_MAX)
        self._options = {_native.MAXIMUM: dist.AllreduceOptions(),
                         _native.SUM: dist.AllreduceOptions()}
        self._options[_native.MAXIMUM].reduceOp = dist.ReduceOp.MAX
        self.callbacks = _native.Callbacks(
            reserve=_native.RESERVE(self._reserve), start=_native.START(self._start),
            test=_native.TEST(self._test), wait=_native.WAIT(self._wait))

    def _make_buffers(self) -> list[Buffer]:
        return [Buffer(self._ranks.place.is_cuda) for _ in range(BUFFERS)]

    def _share(self, buffers: list[Buffer]) -> list[Buffer]:
        """What came is not looked at any more when sums are gathered, nor what was sent when the
        answer is made; the library says so for tracks of a device alone."""
        place = self._ranks.place
        if place.on_device:
            buffers[_native.GATHERED] = buffers[_native.RECEIVED]
        if place.carries:
            for one, other in ((_native.GATHERED, _native.RECEIVED),
                               (_native.ANSWER, _native.SEND)):
                buffers[_native.ON_DEVICE + one] = buffers[_native.ON_DEVICE + other]
        return buffers

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """Within, buffers are made as large as waves need, while nothing is on its way."""
        self._is_ahead = True
        try:
            yield
        finally:
            self._is_ahead = False

    @property
    def taken_bytes(self) -> int:
        """Of all buffers."""
        return sum(buffer.size for buffer in set(self._buffers))

    def give_up(self) -> None:
        """From another thread, when a rank has gone. Over Gloo, who waits for it hears of it."""

    def interrupt(self) -> None:
        """From another thread: whoever waits here fails, and so does what comes later."""
        self.closing = True
        self._break_connections()

    def hang_up(self) -> None:
        """So that ranks which wait for this one in a collective fail at once."""
        self._break_connections()
        group, self._group = self._group, None
        self._works, self._backend = [], None
        self._ranks.drop(group)

    def _break_connections(self) -> None:
        """Gloo has no call for it, but it closes all of a group's connections, and so wakes all who
        wait for them, when one wait is over its time."""
        backend, ranks = self._backend, self._ranks
        if backend is None:
            return
        nothing = torch.empty(1, dtype=torch.uint8)
        # A tag chooses one of as many sets of connections as Gloo has interfaces. A rank that is
        # gone fails at once, and breaks no connection but its own.
        sets = os.environ.get("GLOO_SOCKET_IFNAME", "").count(",") + 1
        for tag in range(END, END + sets):
            for other in set(range(ranks.size)) - {ranks.rank}:
                try:
                    backend.recv([nothing], other, tag).wait(AT_ONCE)
                except RuntimeError:
                    pass

    def close(self) -> None:
        """When the port is gone, which calls us."""
        self._group = self._backend = self.callbacks = None
        self._works = []

    # --- for the library; nothing may be raised into it ---

    def _active(self) -> ContextManager[Any]:
        """Within, what is done on a device is done on the track's stream."""
        return contextlib.nullcontext()

    def _reserve(self, _: Any, buffer: int, size: int) -> int | None:
        try:
            with self._active():
                return self._buffers[buffer].reserve(size, self._is_ahead)
        except BaseException as error:
            return self._failed(error) and None

    def _start(self, _: Any, what: Any) -> int:
        try:
            with self._active():
                self.start(what.contents)
            return 0
        except BaseException as error:
            return self._failed(error)

    def _test(self, _: Any, done: Any) -> int:
        try:
            done[0] = int(self.is_done())
            return 0
        except BaseException as error:
            return self._failed(error)

    def _wait(self, _: Any, seconds: float) -> int:
        """The process group has the time-out."""
        try:
            self.finish(seconds)
            return 0
        except BaseException as error:
            return self._failed(error)

    def _failed(self, error: BaseException) -> int:
        self.error = self.error or error
        return 1

    def start(self, what: _native.Collective) -> None:
        size = self._ranks.size
        self.number = what.number
        source, target = self._buffers[what.source], self._buffers[what.target]
        if what.kind == _native.ALL_TO_ALL:
            self._all_to_all(source, what.send_sizes[:size], target, what.receive_sizes[:size],
                             bool(what.is_small))
        elif what.kind == _native.ALL_GATHER:
            self._all_gather(source, target, what.count)
        else:
            integers = source.there(4 * what.count, True).view(torch.int32)
            self._begin(NAMES[what.kind], "allreduce", [integers], self._options[what.kind],
                        fills=(source, 4 * what.count))

    # --- one collective ---

    def _begin(self, name: str, method: str, *arguments: Any,
               fills: tuple[Buffer, int] | None = None) -> None:
        """A failure of it and of finish() leaves its name in `doing`. `fills` is what arrives
        where, of which _nccl.py makes use."""
        self._prepare(name)
        self._works = [getattr(self._backend, method)(*arguments)]

    def _prepare(self, name: str) -> None:
        self.doing = name
        self._ranks.check(self._position)
        if self._backend is None:
            raise RuntimeError("the process group was given back")

    def is_done(self) -> bool:
        """Blocks: Gloo cannot be asked about a message. Who serves a queue waits anyway."""
        self.finish()
        return True

    def finish(self, seconds: float | None = None) -> None:
        """Waits until what arrives is there; the process group has the time-out."""
        for work in self._works:
            work.wait()
        self._works = []
        self.doing = ""

    def _all_to_all(self, source: Buffer, send: list[int], target: Buffer, receive: list[int],
                    is_small: bool, name: str = "all-to-all") -> None:
        sent, received = sum(send), sum(receive)
        to, into = source.there(sent, True), target.there(received, False)
        # With two ranks messages are cheaper; with more, many small ones are not.
        if self.sends_messages and (self._ranks.size == 2 or not is_small):
            self._prepare(name)
            self._works = self._swap_messages(to.split(send), into.split(receive))
        else:
            self._begin(name, "alltoall_base", into, to, receive, send, fills=(target, received))

    def _swap_messages(self, send: Sequence[torch.Tensor], receive: Sequence[torch.Tensor]
                       ) -> list[Any]:
        """An all-to-all that uses both directions of a link at the same time.

        Gloo sends once it has heard that the other end expects it, on the connection that also
        carries what the other end sends. Its own all-to-all sends first: a rank that comes later
        than the others says so behind all its bytes, and one direction waits for the other.
        """
        rank, size, backend = self._ranks.rank, self._ranks.size, self._backend
        others = [(rank + ahead) % size for ahead in range(1, size)]
        tag = self._first_tag + self._swaps % (END // TRACKS_MAX)
        self._swaps += 1
        works = [backend.recv([receive[other]], other, tag) for other in reversed(others)
                 if receive[other].numel()]
        works += [backend.send([send[other]], other, tag) for other in others
                  if send[other].numel()]
        receive[rank].copy_(send[rank])
        return works

    def _all_gather(self, source: Buffer, target: Buffer, each: int,
                    name: str = "all-gather") -> None:
        """Rank r's bytes at r times their number."""
        size = self._ranks.size * each
        mine, every = source.there(each, True), target.there(size, False)
        if self.sends_messages and self._ranks.size == 2:  # whose ring would be one connection
            self._prepare(name)
            self._works = self._swap_messages([mine, mine], every.split(each))
        elif self._ranks.gathers_flat:
            self._begin(name, "_allgather_base", every, mine, fills=(target, size))
        else:
            self._begin(name, "allgather", [list(every.split(each))], [mine],
                        fills=(target, size))

    # --- for turns: whole collectives, which are counted here ---

    def _finish_own(self, sent: int, received: int, began: float) -> None:
        self.finish()
        self.count += 1
        self.bytes_sent += sent
        self.bytes_received += received
        self.seconds += time.perf_counter() - began

    def _take(self, buffer: int, parts: Sequence[torch.Tensor]) -> Buffer:
        target = self._buffers[buffer]
        torch.cat(list(parts), out=target.fit(sum(part.numel() for part in parts)))
        return target

    def _numbers(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64).view(torch.uint8)

    def gather(self, value: int, name: str = "all-gather") -> list[int]:
        """Every rank's 64-bit integer."""
        began = time.perf_counter()
        source, target = self._take(_native.ANSWER, [self._numbers([value])]), \
            self._buffers[_native.GATHERED]
        size = 8 * self._ranks.size
        target.fit(size)
        self._all_gather(source, target, 8, name)
        self._finish_own(0, 0, began)
        return target.fit(size).view(torch.int64).tolist()

    def swap(self, parts: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Gives each rank its part; what came from each, until the next call."""
        began, ranks = time.perf_counter(), self._ranks
        send = [part.numel() for part in parts]
        target, eights = self._buffers[_native.RECEIVED], [8] * ranks.size
        target.fit(8 * ranks.size)
        self._all_to_all(self._take(_native.SEND, [self._numbers(send)]), eights, target, eights,
                         True, "all-to-all of sizes")
        self._finish_own(0, 0, began)
        receive = target.fit(8 * ranks.size).view(torch.int64).tolist()
        if min(receive) < 0:
            raise SluiceError(f"sizes {receive} of what ranks send; accepted: 0 or more")
        began = time.perf_counter()
        source, arrived = self._take(_native.SEND, parts), target.fit(sum(receive))
        self._all_to_all(source, send, target, receive, False)
        self._finish_own(sum(send) - send[ranks.rank], sum(receive) - receive[ranks.rank], began)
        return list(arrived.split(receive))

    def share(self, part: torch.Tensor) -> list[torch.Tensor]:
        """Gives all ranks the part; what came from each, until the next call."""
        sizes = self.gather(part.numel(), "all-gather of sizes")
        began, stride = time.perf_counter(), max(1, *sizes)
        source, target = self._buffers[_native.ANSWER], self._buffers[_native.GATHERED]
        source.fit(stride)[:part.numel()].copy_(part)
        every = target.fit(self._ranks.size * stride)
        self._all_gather(source, target, stride)
        mine = sizes[self._ranks.rank]
        self._finish_own((self._ranks.size - 1) * mine, sum(sizes) - mine, began)
        return [row[:size] for row, size in zip(every.view(-1, stride), sizes)]

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        """By the process group's own sum: for what we do not understand."""
        began, there = time.perf_counter(), tensor.to(self._ranks.device)
        self._begin("all-reduce", "allreduce", [there], self._options[_native.SUM])
        self._finish_own(0, 0, began)
        return there.div_(self._ranks.size).to(tensor.device)

    def read(self, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
        """A tensor's bytes on the host, in parts that last until the next one."""
        flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
        if self._reader is None or not flat.is_cuda:
            yield flat.cpu()
            return
        for arrived, part in self._reader.parts(flat):
            self._await_copy(arrived)
            yield part

    def _await_copy(self, arrived: Any) -> None:
        arrived.synchronize()

    def compare(self, what: str, value: int) -> None:
        """Raises on every rank unless all have the same 64 bits."""
        self._ranks.compare(what, self.gather(ctypes.c_int64(value).value))
