"""One bucket on its way: float32 on the host for what travels, and the means back to where DDP
looks for them."""

from __future__ import annotations

import ctypes
import zlib
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from sluice.torch import _native

if TYPE_CHECKING:
    from sluice.torch._lanes import Lane
    from sluice.torch._state import State

HALVES = {torch.bfloat16: b"bf16", torch.float16: b"fp16"}
Tensor = torch.Tensor


def as_reals(buffer: Tensor) -> Tensor:
    """Complex gradients come as pairs of floats from torch 2 on, and as they are from 1.13."""
    if not buffer.is_complex() or buffer.is_sparse:
        return buffer
    return torch.view_as_real(buffer).view(-1)


class Work:
    """One bucket on its way, as it is."""

    understood = False  # whether it travels in parcels

    def __init__(self, bucket: dist.GradBucket, step: int) -> None:
        self.step = step
        self.index = bucket.index()
        self.where = f"step {step}, bucket {self.index}"
        self.result = bucket.buffer()  # of the means; what DDP then copies from
        self.buffer = as_reals(self.result)
        self.error: BaseException | None = None
        devices = [self.buffer.device] if self.buffer.is_cuda else None
        self.future: torch.futures.Future = torch.futures.Future(devices=devices)
        self.parts_max = 1  # of the parcels, before unpack()
        self.parts = 1
        self.left = 1  # lanes that still work on it
        self.jobs: ctypes.Array | None = None
        self._event: Any = None
        if self.buffer.is_cuda:
            self._event = torch.cuda.Event()
            self._event.record()

    def unpack(self, lane: "Lane") -> None:
        """Float32 on the host, as jobs, and the number of parts. On a lane."""
        raise NotImplementedError

    def repack(self) -> bool:
        """The means into the result; whether any became infinite in half precision."""
        raise NotImplementedError

    def digest(self) -> int:
        """Of all that DDP gets, however it came there: ranks compare it."""
        parts = (self.result._indices(), self.result._values()) if self.result.is_sparse \
            else (self.result,)
        digest = self.index
        for part in parts:
            flat = part.detach().cpu().contiguous().view(-1)
            digest = zlib.crc32(flat.view(torch.uint8).numpy(), digest)
        return digest


class DenseWork(Work):
    """A bucket of ordinary gradients, end to end."""

    understood = True

    def __init__(self, state: "State", bucket: dist.GradBucket, step: int) -> None:
        super().__init__(bucket, step)
        self._packed: Tensor | None = None  # the slices that travel exactly, end to end
        self._floats: Tensor | None = None  # the buffer as float32 on the host, if it is not that
        self._memory = state.memory
        self._slices = state.tensors.cut(self.buffer, bucket.parameters(), self.where)
        if step < state.settings.start_step:
            self._slices = [(_native.EXACT, at, count) for _, at, count in self._slices]
        self.parts = self.parts_max = max(1, -(-self.buffer.numel() // state.settings.parcel))

    def unpack(self, lane: "Lane") -> None:
        floats = self._host_floats()
        exact = sum(count for index, _, count in self._slices if index == _native.EXACT)
        self._packed = torch.empty(exact, dtype=torch.float32)
        base, packed, at = floats.data_ptr(), self._packed.data_ptr(), 0
        jobs = []
        for index, offset, count in self._slices:
            address = base + 4 * offset
            if index != _native.EXACT:
                jobs.append((index, count, address, address))
                continue
            ctypes.memmove(packed + 4 * at, address, 4 * count)
            at += count
        if exact:
            jobs.append((_native.EXACT, exact, packed, packed))
        self.jobs = (_native.Job * len(jobs))(*jobs)

    def _host_floats(self) -> Tensor:
        if self.buffer.dtype == torch.float32 and not self.buffer.is_cuda:
            return self.buffer
        self._floats = torch.empty(self.buffer.numel(), dtype=torch.float32)
        if self._event is not None:
            self._event.synchronize()
        host = self.buffer.cpu() if self.buffer.is_cuda else self.buffer
        if host.dtype == torch.float32:
            self._floats = host
        else:
            _native.check(_native.lib().sluice_widen(HALVES[host.dtype], host.data_ptr(),
                                                     host.numel(), self._floats.data_ptr()))
        return self._floats

    def repack(self) -> bool:
        floats = self.buffer if self._floats is None else self._floats
        base, at = floats.data_ptr(), 0
        for index, offset, count in self._slices:
            if index == _native.EXACT:
                ctypes.memmove(base + 4 * offset, self._packed.data_ptr() + 4 * at, 4 * count)
                at += count
        if self._floats is None:
            return False
        host, finite = floats, True
        if self.buffer.dtype in HALVES:
            host = torch.empty(floats.numel(), dtype=self.buffer.dtype)
            for index, offset, count in self._slices:
                self._memory.shorten(index, HALVES[host.dtype], base + 4 * offset, count,
                                     host.data_ptr() + 2 * offset)
            finite = bool(torch.isfinite(host).all())
        self.buffer.copy_(host)
        return not finite
