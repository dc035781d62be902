"""One bucket on its way: float32 on the host for what travels, and the means back to where DDP
looks for them; or on its device, where it stays."""

from __future__ import annotations

import ctypes
import threading
import zlib
from typing import TYPE_CHECKING, Any, Sequence

import torch

from sluice.torch import _native
from sluice.torch._placement import active

if TYPE_CHECKING:
    from sluice.torch._tracks import Track

HALVES = {torch.bfloat16: b"bf16", torch.float16: b"fp16"}
FORMATS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # of sluice_order
Tensor = torch.Tensor


def as_reals(buffer: Tensor) -> Tensor:
    """Complex gradients come as pairs of floats from torch 2 on, and as they are from 1.13."""
    if not buffer.is_complex() or buffer.is_sparse:
        return buffer
    return torch.view_as_real(buffer).view(-1)


class Work:
    """What travels, or is a turn: then `entries` is None and run() does it."""

    entries: ctypes.Array | None = None
    infinite = 0  # coordinates that a turn found so
    probes: Sequence[_native.Probe] = ()  # of a turn
    step = 0
    is_probed = True  # where a step is
    stream: Any = None  # of a device, that the result was written on

    def __init__(self, where: str) -> None:
        self.where = where

    def run(self, track: "Track", number: int) -> None:
        """A turn's collectives."""
        raise NotImplementedError

    def place(self) -> dict[str, Any]:
        """What an order says of where it lies."""
        return {}

    def repack(self, memory: _native.Memory) -> bool:
        """The means into the result; whether any became infinite in half precision."""
        return False

    def digest(self, track: "Track") -> int:
        return 0

    def counts(self) -> dict[str, int]:
        """What it adds to the totals."""
        return {}

    def complete(self, error: BaseException | None) -> None:
        """To whoever waits for it."""


class BucketWork(Work):
    """A bucket of DDP, whose future gets the means."""

    def __init__(self, index: int, result: Tensor, buffer: Tensor, step: int) -> None:
        self.step, self.index = step, index
        self.result, self.buffer = result, buffer  # DDP copies from the result.
        self.error: BaseException | None = None
        self._completing = threading.Lock()
        self._done: torch.futures.Future = torch.futures.Future(
            devices=[buffer.device] if buffer.is_cuda else None)
        self._event: Any = None
        if buffer.is_cuda:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(buffer.device))

    @property
    def where(self) -> str:
        return f"step {self.step}, bucket {self.index}"

    @property
    def future(self) -> torch.futures.Future:
        return self._done.then(lambda _: self._result())

    def _result(self) -> Tensor:
        if self.error is not None:
            raise self.error
        return self.result

    def complete(self, error: BaseException | None) -> None:
        """Once; who comes later, such as the stager after a track's failure, changes nothing."""
        if self._completing.acquire(blocking=False):
            self.error = error
            value = None if error or self.stream is None else self.result
            with active(self.stream):  # Whoever uses the result waits for what is on it by now.
                self._done.set_result(value)

    def await_device(self) -> None:
        if self._event is not None:
            self._event.synchronize()

    def counts(self) -> dict[str, int]:
        return {"buckets": 1}

    def digest(self, track: "Track") -> int:
        """Of all that DDP gets, however it came there: ranks compare it."""
        parts = (self.result._indices(), self.result._values()) if self.result.is_sparse \
            else (self.result,)
        digest = self.index
        for part in parts:
            for data in track.collectives.read(part):
                digest = zlib.crc32(data.numpy(), digest)
        return digest


class PlainWork(BucketWork):
    """Gradients that we do not understand, in a turn, by the process group's own sum."""

    @property
    def where(self) -> str:
        return f"step {self.step}, bucket {self.index}, {self.buffer.dtype} as it is"

    def run(self, track: "Track", number: int) -> None:
        self.await_device()
        mean = track.collectives.mean(self.buffer)
        if mean.is_sparse:
            self.result = mean
        else:
            self.buffer.copy_(mean)

    def counts(self) -> dict[str, int]:
        return {"buckets": 1, "exact_buckets": 1}


class Plan:
    """What stays the same of a bucket from step to step: its tensors, and memory for them."""

    def __init__(self, parameters: list[Tensor], slices: list[tuple[int, int, int]],
                 buffer: Tensor) -> None:
        self._ids = [id(parameter) for parameter in parameters]
        self._form = buffer.dtype, buffer.device, buffer.shape
        self.slices = slices  # tensor, offset, elements
        self.bytes = sum(4 * count for _, _, count in slices)
        self._address, self._entries = -1, (_native.Entry * 0)()
        self._memory: dict[torch.dtype, Tensor] = {}

    def fits(self, parameters: list[Tensor], buffer: Tensor) -> bool:
        return self._form == (buffer.dtype, buffer.device, buffer.shape) and \
            buffer.is_contiguous() and self._ids == [id(parameter) for parameter in parameters]

    def entries(self, floats: Tensor) -> ctypes.Array:
        """Of floats that lie there, in the same format every time."""
        address, size = floats.data_ptr(), floats.element_size()
        if address != self._address:
            entries = [(index, count, address + size * at, address + size * at)
                       for index, at, count in self.slices]
            self._address, self._entries = address, (_native.Entry * len(entries))(*entries)
        return self._entries

    def host(self, like: Tensor, dtype: torch.dtype) -> Tensor:
        """Memory of the host as long as the bucket. One step at a time uses it."""
        if dtype not in self._memory:
            self._memory[dtype] = torch.empty(like.numel(), dtype=dtype, pin_memory=like.is_cuda)
        return self._memory[dtype]


class DenseWork(BucketWork):
    """A bucket of ordinary gradients, end to end."""

    def __init__(self, plan: Plan, index: int, result: Tensor, buffer: Tensor, step: int) -> None:
        super().__init__(index, result, buffer, step)
        self.plan = plan
        self.floats = buffer  # float32 on the host, once it is unpacked

    def unpack(self) -> None:
        buffer = host = self.buffer
        if buffer.is_cuda:
            self.await_device()
            host = self.plan.host(buffer, buffer.dtype)
            host.copy_(buffer)
        self.floats = host
        if host.dtype != torch.float32:
            self.floats = self.plan.host(buffer, torch.float32)
            _native.check(_native.lib().sluice_widen(HALVES[host.dtype], host.data_ptr(),
                                                     host.numel(), self.floats.data_ptr()))
        self.entries = self.plan.entries(self.floats)

    def repack(self, memory: _native.Memory) -> bool:
        host, finite = self.floats, True
        if host is self.buffer:
            return False
        if self.buffer.dtype in HALVES:
            host = self.plan.host(self.buffer, self.buffer.dtype)
            for index, at, count in self.plan.slices:
                memory.shorten(index, HALVES[host.dtype], self.floats.data_ptr() + 4 * at, count,
                               host.data_ptr() + 2 * at)
            finite = bool(torch.isfinite(host).all())
        self.buffer.copy_(host)
        return not finite

    def counts(self) -> dict[str, int]:
        return {"buckets": 1, "gradient_bytes": self.plan.bytes}


class DeviceWork(BucketWork):
    """A bucket of ordinary gradients that stays on its device, in DDP's own memory and format."""

    is_probed = False

    def __init__(self, plan: Plan, index: int, result: Tensor, buffer: Tensor, step: int) -> None:
        super().__init__(index, result, buffer, step)
        self._plan = plan
        self.entries = plan.entries(buffer)

    def place(self) -> dict[str, Any]:
        return {"on_device": 1, "format": FORMATS[self.buffer.dtype],
                "ready": self._event and self._event.cuda_event}

    def repack(self, memory: _native.Memory) -> bool:
        if self.stream is not None:
            self.buffer.record_stream(self.stream)
        return False

    def counts(self) -> dict[str, int]:
        return {"buckets": 1, "gradient_bytes": self._plan.bytes}
