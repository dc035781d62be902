"""Bytes for collectives: on the host, on a device, or on both."""

from __future__ import annotations

from typing import Any, Iterator

import torch

READ_BYTES = 1 << 20  # that come to the host at once


class Buffer:
    """Of the host, where the process group wants them. Grows, never shrinks."""

    on_host = True  # whether who fills it looks at it there

    def __init__(self, pinned: bool = False) -> None:
        self._pinned = pinned
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def fit(self, size: int) -> torch.Tensor:
        """At least so many bytes, of which what was there may be lost."""
        if self._bytes.numel() < size:
            self._grow(size + size // 4)
        return self._bytes[:size]

    def reserve(self, size: int, is_ahead: bool = False) -> int:
        """The address of so many bytes; ahead of time it grows to exactly as many."""
        if is_ahead:
            self.make_room(size)
        elif self._bytes.numel() < size:
            self.fit(size)
        return self._bytes.data_ptr()

    def make_room(self, size: int) -> None:
        if self._bytes.numel() < size:
            self._grow(size)

    @property
    def size(self) -> int:
        """Bytes that it has taken."""
        return self._bytes.numel()

    def _grow(self, size: int) -> None:
        self._bytes = torch.empty(size, dtype=torch.uint8, pin_memory=self._pinned)

    def there(self, size: int, filled: bool) -> torch.Tensor:
        """The first bytes where the process group wants them, with what is in them if filled."""
        return self._bytes[:size]

    def back(self, size: int) -> None:
        """What arrived, to where it is looked at."""


class DeviceBuffer(Buffer):
    """Of a device."""

    on_host = False

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def _grow(self, size: int) -> None:
        self._bytes = torch.empty(size, dtype=torch.uint8, device=self._device)


class TwinBuffer(Buffer):
    """Of the host, for a process group that takes bytes of a device. Copies go on the current
    stream, and nobody waits for them."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(pinned=True)
        self._twin = DeviceBuffer(device)

    def _grow(self, size: int) -> None:
        super()._grow(size)
        self._twin.make_room(size)

    def there(self, size: int, filled: bool) -> torch.Tensor:
        there = self._twin.there(size, filled)
        if filled:
            there.copy_(self._bytes[:size], non_blocking=True)
        return there

    def back(self, size: int) -> None:
        self._bytes[:size].copy_(self._twin.there(size, True), non_blocking=True)


class Reader:
    """Brings bytes of a device to the host by memory that is taken at the start. A copy to other
    memory, or taking more, would wait for the whole device, and so for collectives on it."""

    def __init__(self) -> None:
        self._bytes = torch.empty(READ_BYTES, dtype=torch.uint8, pin_memory=True)
        self._arrived = torch.cuda.Event()

    def parts(self, there: torch.Tensor) -> Iterator[tuple[Any, torch.Tensor]]:
        """An event, and what it says has come; copied on the current stream."""
        for part in there.split(READ_BYTES):
            here = self._bytes[:part.numel()]
            here.copy_(part, non_blocking=True)
            self._arrived.record()
            yield self._arrived, here
