"""Lanes: threads of our own, each with a process group, that move parcels through collectives, or
through aggregators.

Parcel number k of a job runs on lane k modulo the number of lanes, so each process group sees its
collectives in an order that depends on bucket, step, chunk and round alone.
"""

from __future__ import annotations

import ctypes
import queue
import threading
import time
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

from sluice.torch import _native
from sluice.torch._errors import SluiceError
from sluice.torch._ranks import Ranks
from sluice.torch._stream import Stream


class Buffer:
    """Bytes for a collective: on the host for us, and where the process group wants them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._host = torch.empty(0, dtype=torch.uint8)
        self._there = self._host

    def fit(self, size: int) -> torch.Tensor:
        """At least so many bytes, on the host; grows, never shrinks."""
        if self._host.numel() < size:
            self._host = torch.empty(size + size // 4, dtype=torch.uint8)
            self._there = self._host if self._device.type == "cpu" else \
                torch.empty(self._host.numel(), dtype=torch.uint8, device=self._device)
        return self._host[:size]

    @property
    def address(self) -> int:
        return self._host.data_ptr()

    def there(self, size: int, filled: bool) -> torch.Tensor:
        """The first bytes where the process group wants them, with the host's content if filled."""
        there = self._there[:size]
        if filled and self._device.type != "cpu":
            there.copy_(self._host[:size])
        return there

    def back(self, size: int) -> None:
        """What arrived, to the host."""
        if self._device.type != "cpu":
            self._host[:size].copy_(self._there[:size])


class Figures:
    """What a lane measured; only its thread writes."""

    def __init__(self) -> None:
        self.bytes_sent = 0
        self.bytes_received = 0
        self.collectives = 0
        self.retransmits = 0  # through aggregators
        self.seconds = dict.fromkeys(("encode", "network", "combine", "decode"), 0.0)


class Lane:
    """One thread, one process group, one parcel at a time."""

    def __init__(self, index: int, ranks: Ranks, memory: _native.Memory) -> None:
        self.figures = Figures()
        self.position = "at rest"
        self._ranks = ranks
        self._group = ranks.groups[index]
        self._parcel = _native.Parcel(memory, ranks.size)
        self._send, self._receive, self._answer, self._gathered = (
            Buffer(ranks.device) for _ in range(4))
        self._queue: queue.SimpleQueue[Callable[[Lane], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"sluice-lane-{index}",
                                        daemon=True)
        self._thread.start()

    def submit(self, task: Callable[[Lane], None]) -> None:
        """Tasks run in the order they come; they do not raise."""
        self._queue.put(task)

    def close(self) -> None:
        self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._group = None  # which has threads of its own

    def _work(self) -> None:
        if self._ranks.device.type == "cuda":  # Every thread begins with device 0.
            torch.cuda.set_device(self._ranks.device)
        while True:
            task = self._queue.get()
            if task is None:
                return
            task(self)
            del task

    # --- one parcel ---

    def run(self, order: _native.Order, jobs: ctypes.Array, bucket: int) -> _native.Report:
        """Averages a part of a bucket."""
        where = f"step {order.step}, bucket {bucket}, parcel {order.sequence}"
        self.position = f"{where}, encode"
        seconds = self.figures.seconds
        began = time.perf_counter()
        self._parcel.begin(order, jobs)
        try:
            for number, step in enumerate(self._parcel.steps()):
                seconds["encode" if number == 0 else "decode"] += time.perf_counter() - began
                where_round = f"{where}, round {number}"
                if step.collective in (_native.SHARDS, _native.WHOLE):
                    self._shards(step, where_round)
                else:
                    self._lanes(step, where_round)
                began = time.perf_counter()
        except SluiceError:
            raise
        except Exception:
            self._parcel.abandon()
            raise
        seconds["decode"] += time.perf_counter() - began
        self.position = "at rest"
        return self._parcel.report()

    def _collective(self, name: str, where: str, run: Callable[[], Any]) -> None:
        """Runs one collective; its failure names who is missing."""
        self.position = f"{where}, {name}"
        self._ranks.check(self.position)
        began = time.perf_counter()
        try:
            if self._group is None:
                raise RuntimeError("the process group was given back")
            run()
            if self._ranks.device.type == "cuda":
                torch.cuda.current_stream().synchronize()
        except (RuntimeError, ValueError) as error:  # ValueError: another thread has hung up
            raise self._ranks.lost(self.position, error, self.hang_up) from None
        self.figures.collectives += 1
        self.figures.seconds["network"] += time.perf_counter() - began

    def hang_up(self) -> None:
        """After a failure, so that ranks which wait for this one fail at once."""
        group, self._group = self._group, None
        self._ranks.drop(group)

    def compare(self, what: str, value: int) -> None:
        """Raises on every rank unless all have the same 64 bits. While no parcel is on its way, on
        any thread: which one ends a step differs between ranks, the group must not."""
        signed = value - (1 << 64) if value >= 1 << 63 else value
        got: list[list[int]] = []
        self._collective("all-gather", f"comparing {what}",
                         lambda: got.extend(self._ranks.gather([signed], self._group)))
        self._ranks.compare(what, [one for one, in got])

    def _shards(self, step: _native.Step, where: str) -> None:
        sizes = self._parcel.sizes(step)
        receive = sizes.receive or self._tell(sizes.send, where)
        answer_sizes = sizes.answer
        sent = sum(sizes.send)
        self._send.fit(sent)
        self._parcel.pack(self._send.address, sent)
        self._all_to_all(sizes.send, receive, where)
        began = time.perf_counter()
        address, size = self._parcel.combine(self._receive.address, receive)
        self.figures.seconds["combine"] += time.perf_counter() - began
        if step.collective == _native.WHOLE:
            return
        if answer_sizes is None:
            answer_sizes = self._tell_answer(size, where)
        stride = max(1, max(answer_sizes))
        self._answer.fit(stride)
        ctypes.memmove(self._answer.address, address, size)
        self._all_gather(stride, answer_sizes, where)
        began = time.perf_counter()
        self._parcel.spread(self._gathered.address, stride, answer_sizes)
        self.figures.seconds["decode"] += time.perf_counter() - began

    def _all_to_all(self, send: list[int], receive: list[int], where: str) -> None:
        """Of what was put into _send, into _receive."""
        sent, received = sum(send), sum(receive)
        self._receive.fit(received)
        self._collective("all-to-all", where, lambda: dist.all_to_all_single(
            self._receive.there(received, False), self._send.there(sent, True), receive, send,
            group=self._group))
        self._receive.back(received)
        self.figures.bytes_sent += sent - send[self._ranks.rank]
        self.figures.bytes_received += received - receive[self._ranks.rank]

    def _all_gather(self, stride: int, sizes: list[int], where: str) -> None:
        """Of what was put into _answer, into _gathered: rank r's at r times the stride."""
        size = self._ranks.size * stride
        self._gathered.fit(size)
        mine = self._answer.there(stride, True)
        every = self._gathered.there(size, False)
        if self._ranks.gathers_flat:
            self._collective("all-gather", where, lambda: dist.all_gather_into_tensor(
                every, mine, group=self._group))
        else:
            parts = [every[r * stride:(r + 1) * stride] for r in range(self._ranks.size)]
            self._collective("all-gather", where,
                             lambda: dist.all_gather(parts, mine, group=self._group))
        self._gathered.back(size)
        mine_size = sizes[self._ranks.rank]
        self.figures.bytes_sent += (self._ranks.size - 1) * mine_size
        self.figures.bytes_received += sum(sizes) - mine_size

    def _tell(self, send: list[int], where: str) -> list[int]:
        """Ranks tell each other how much they send."""
        mine = torch.tensor(send, dtype=torch.int64, device=self._ranks.device)
        theirs = torch.empty_like(mine)
        self._collective("all-to-all of sizes", where,
                         lambda: dist.all_to_all_single(theirs, mine, group=self._group))
        return theirs.tolist()

    def _tell_answer(self, size: int, where: str) -> list[int]:
        got: list[list[int]] = []
        self._collective("all-gather of sizes", where,
                         lambda: got.extend(self._ranks.gather([size], self._group)))
        return [one for one, in got]

    def _lanes(self, step: _native.Step, where: str) -> None:
        count = step.lane_count
        self._send.fit(4 * count)
        self._parcel.pack_lanes(self._send.address, count)
        op = dist.ReduceOp.MAX if step.collective == _native.MAXIMUM else dist.ReduceOp.SUM
        lanes = self._send.there(4 * count, True).view(torch.int32)
        self._collective("all-reduce", where,
                         lambda: dist.all_reduce(lanes, op=op, group=self._group))
        self._send.back(4 * count)
        moved = 8 * count * (self._ranks.size - 1) // self._ranks.size  # a ring's
        self.figures.bytes_sent += moved
        self.figures.bytes_received += moved
        began = time.perf_counter()
        self._parcel.spread_lanes(self._send.address, count)
        self.figures.seconds["decode"] += time.perf_counter() - began

    # --- bytes besides parcels ---

    def swap(self, parts: Sequence[torch.Tensor], where: str) -> list[torch.Tensor]:
        """Gives each rank its part; what came from each, until the next call."""
        send = [part.numel() for part in parts]
        receive = self._tell(send, where)
        torch.cat(list(parts), out=self._send.fit(sum(send)))
        self._all_to_all(send, receive, where)
        return list(self._receive.fit(sum(receive)).split(receive))

    def share(self, part: torch.Tensor, where: str) -> list[torch.Tensor]:
        """Gives all ranks the part; what came from each, until the next call."""
        sizes = self._tell_answer(part.numel(), where)
        stride = max(1, max(sizes))
        self._answer.fit(stride)[:part.numel()].copy_(part)
        self._all_gather(stride, sizes, where)
        rows = self._gathered.fit(self._ranks.size * stride).view(-1, stride)
        return [row[:size] for row, size in zip(rows, sizes)]

    # --- what is not ours ---

    def plain(self, tensor: torch.Tensor, bucket: int, step: int) -> torch.Tensor:
        """The mean by the process group's own sum: for what we do not understand."""
        where = f"step {step}, bucket {bucket}, {tensor.dtype} as it is"
        there = tensor.to(self._ranks.device)
        self._collective("all-reduce", where, lambda: dist.all_reduce(there, group=self._group))
        return there.div_(self._ranks.size).to(tensor.device)


class StreamLane(Lane):
    """A lane whose parcels travel through aggregators; its process group is for all else."""

    def __init__(self, index: int, ranks: Ranks, memory: _native.Memory, stream: Stream) -> None:
        # Before the thread is there: this fails where an aggregator does not answer.
        self._stream = stream
        self._port: _native.Port | None = None
        try:
            self._port = stream.port(index, memory)
        # ValueError: a host that has no address here.
        except (SluiceError, ValueError, MemoryError) as error:
            raise ranks.failed("attach, joining the aggregators", error, ranks.drop_all) from None
        super().__init__(index, ranks, memory)

    def run(self, order: _native.Order, jobs: ctypes.Array, bucket: int) -> _native.Report:
        self.position = f"step {order.step}, bucket {bucket}, parcel {order.sequence}"
        if self._port is None:
            raise SluiceError("this lane has failed before")
        began, before = time.perf_counter(), self._port.traffic()
        try:
            report = self._port.run(order, jobs)
        except SluiceError as error:
            raise self._ranks.lost(self.position, error, self.hang_up) from None
        after = self._port.traffic()
        coding = report.encode_seconds + report.decode_seconds
        self.figures.seconds["encode"] += report.encode_seconds
        self.figures.seconds["decode"] += report.decode_seconds
        self.figures.seconds["network"] += max(0.0, time.perf_counter() - began - coding)
        self.figures.bytes_sent += after.sent_bytes - before.sent_bytes
        self.figures.bytes_received += after.received_bytes - before.received_bytes
        self.figures.retransmits += after.retransmits - before.retransmits
        self.position = "at rest"
        return report

    def hang_up(self) -> None:
        super().hang_up()
        self._leave()

    def close(self) -> None:
        super().close()
        if self._is_elsewhere():  # in a run that waits for a rank
            self._stream.wake()
            self._thread.join(timeout=5)
        if not self._is_elsewhere():  # Who runs a port needs it.
            self._leave()

    def _is_elsewhere(self) -> bool:
        return self._thread is not threading.current_thread() and self._thread.is_alive()

    def _leave(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            port.close()
