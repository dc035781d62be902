"""What a rank knows of its link in the lab: what crossed it, and how fast it shall be."""

from __future__ import annotations

import contextlib
import os

import torch
import torch.distributed as dist

from lab_parts import control

HEADERS = 1514 / 1448  # Ethernet, IP and TCP around a full segment


def counters() -> tuple[int, int] | None:
    """Bytes sent and received by the interface; none on loopback, which everybody shares."""
    name = os.environ.get("SLUICE_LAB_INTERFACE", "lo")
    if name == "lo":
        return None
    with open("/proc/net/dev", encoding="ascii") as lines:
        fields = next(line.split(":")[1].split() for line in lines if f"{name}:" in line)
    return int(fields[8]), int(fields[0])


def is_limited() -> bool:
    """Whether there are links that can be limited."""
    return counters() is not None


def set_rate(rate: str | None) -> None:
    """Of all links, in each direction; none: unlimited. Collective."""
    problem = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank() == 0:
        try:
            control.set_rate(rate or "unlimited")
        except BaseException:
            problem[0] = 1
            dist.all_reduce(problem)
            raise
    dist.all_reduce(problem)
    if problem.item():
        raise SystemExit(1)  # Rank 0 says why.


@contextlib.contextmanager
def without_limit(rate: str | None):
    """For what a run needs and nobody measures: models to all ranks, exact means. Collective."""
    if rate is None:
        yield
        return
    set_rate(None)
    yield
    set_rate(rate)


def ring_bytes(size: int, workers: int) -> float:
    """What a worker sends when `size` bytes are all-reduced on a ring."""
    return 2 * (workers - 1) / workers * size * HEADERS
