"""Short time slices for the threads that move gradients.

Where gradients are computed on the processor, these threads share cores with those that compute. A
message that waits for one of them to give a core up, at every hop, is what a step then waits for.
From Linux 6.12 on a thread can ask for its time slice, and one with a shorter slice runs sooner
when it wakes; what it gets of a core in all stays the same. Older kernels take no notice.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import struct
from typing import Iterator

SLICE_NS = 100_000  # the shortest that the kernel grants
ATTRIBUTES = struct.Struct("=IIQiIQQQ")  # size, policy, flags, nice, priority, runtime, …
OTHER = 0  # the policy of ordinary threads
_SET, _GET = {"x86_64": (314, 315), "aarch64": (274, 275)}.get(platform.machine(), (0, 0))
_libc = ctypes.CDLL(None, use_errno=True)


def attributes(thread: int = 0) -> tuple[int, ...] | None:
    """Those of a thread, 0: the calling one, as the kernel has them; none where it cannot be
    asked."""
    buffer = ctypes.create_string_buffer(ATTRIBUTES.size)
    if not _GET or _libc.syscall(_GET, thread, buffer, ATTRIBUTES.size, 0) != 0:
        return None
    return ATTRIBUTES.unpack(buffer.raw)


def _ask(found: tuple[int, ...], runtime: int) -> None:
    """A refusal changes nothing but speed."""
    wanted = ATTRIBUTES.pack(ATTRIBUTES.size, *found[1:5], runtime, 0, 0)
    buffer = ctypes.create_string_buffer(wanted, ATTRIBUTES.size)
    _libc.syscall(_SET, 0, buffer, 0)


@contextlib.contextmanager
def short() -> Iterator[None]:
    """Threads that are started within have short slices: they take their creator's."""
    found = attributes()
    if found is None or found[1] != OTHER:
        yield
        return
    _ask(found, SLICE_NS)
    try:
        yield
    finally:
        _ask(found, found[5])
