"""Collectives of a process group of NCCL: all that they do is in the order of a track's stream, and
nobody waits for it but where the host has to see the bytes."""

from __future__ import annotations

import time
from typing import Any, Callable, ContextManager

import torch

from sluice.torch import _native
from sluice.torch._buffers import Buffer, DeviceBuffer, TwinBuffer
from sluice.torch._collectives import BUFFERS, Collectives
from sluice.torch._errors import SluiceError
from sluice.torch._placement import active
from sluice.torch._ranks import Ranks

EAGER_SECONDS = 300e-6  # of looking again and again
PAUSE_SECONDS = 50e-6  # between two looks later on


class NcclCollectives(Collectives):
    """What the host sends goes by way of the device, on the same stream."""

    sends_messages = False

    def __init__(self, ranks: Ranks, group: Any, position: Callable[[], str], index: int,
                 stream: Any) -> None:
        super().__init__(ranks, group, position, index)
        self._stream = stream
        self._arrived = torch.cuda.Event()  # on the host, what the collective in hand brings
        self._is_awaited = False  # whether anybody looks there

    def _make_buffers(self) -> list[Buffer]:
        device = self._ranks.device
        return [TwinBuffer(device) if number < _native.ON_DEVICE else DeviceBuffer(device)
                for number in range(BUFFERS)]

    def give_up(self) -> None:
        """The device would wait for the rank for ever."""
        self._ranks.abort(self._group)

    def interrupt(self) -> None:
        self.closing = True
        self._ranks.abort(self._group)

    def hang_up(self) -> None:
        self._ranks.abort(self._group)
        self._group = self._backend = None

    # --- for the library ---

    def _active(self) -> ContextManager[Any]:
        """Memory is the stream's from the start: others may still use what they gave back."""
        return active(self._stream)

    # --- one collective ---

    def _begin(self, name: str, method: str, *arguments: Any,
               fills: tuple[Buffer, int] | None = None) -> None:
        self._prepare(name)
        # The stream waits for it, not this thread.
        getattr(self._backend, method)(*arguments).wait()
        if fills is not None:
            fills[0].back(fills[1])
        self._is_awaited = fills is None or fills[0].on_host
        if self._is_awaited:
            self._arrived.record()

    def is_done(self) -> bool:
        if self._is_awaited and not self._arrived.query():
            return False
        return super().is_done()

    def finish(self, seconds: float | None = None) -> None:
        """On the device, it stays the one in hand: nobody here learns when it is done."""
        if self._is_awaited:
            self._await(self._arrived, self._ranks.timeout if seconds is None else seconds)
            self.doing = ""
        self._is_awaited = False

    def _await_copy(self, arrived: Any) -> None:
        self._await(arrived, self._ranks.timeout)

    def _await(self, arrived: Any, seconds: float) -> None:
        """CUDA has no wait that can end in time, or when a rank has gone."""
        began = time.monotonic()
        while not arrived.query():
            took = time.monotonic() - began
            if took > EAGER_SECONDS:
                self._ranks.check(self._position)
            if self.closing:
                raise RuntimeError("the process group was given back")
            if took > seconds:
                raise RuntimeError(f"it was not done within {seconds:g} s")
            time.sleep(0 if took < EAGER_SECONDS else PAUSE_SECONDS)

    def mean(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_sparse:
            raise SluiceError(f"sparse gradients of {tensor.dtype}, which NCCL does not add up;"
                              " accepted: sparse float32, bfloat16 and float16, or backend gloo")
        return super().mean(tensor)
