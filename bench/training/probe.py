"""Finds the links' rate at which dense communication takes a given share of a step."""

from __future__ import annotations

import dataclasses
import statistics
import time

import torch
import torch.distributed as dist

from training import lab_link
from training.contestants import NAMED, parse
from training.course import Trainee, wrap
from training.jobs import Batch, Job

SHARE = 0.8        # of a dense step that shall be communication nothing hides
HIDDEN = 0.7       # of the backward pass that communication runs beside: a first guess
COMPUTE_STEPS, DENSE_STEPS, TRIES = 7, 4, 3
CLOSE = 0.02       # a share this near is good enough


@dataclasses.dataclass
class Probe:
    """What was found out; times are those of the slowest rank, all of them computing at once."""

    compute_s: float
    backward_s: float
    step_s: float | None = None
    rate: str | None = None

    @property
    def share(self) -> float | None:
        return None if self.step_s is None else 1 - self.compute_s / self.step_s


def slowest(seconds: list[float]) -> list[float]:
    """Each entry's largest over all ranks; collective."""
    times = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times.tolist()


def compute(job: Job, batches: list[Batch]) -> Probe:
    """Steps without communication."""
    model = Trainee(job.model())
    optimizer = job.optimizer(model)
    steps, backwards = [], []
    for number in range(COMPUTE_STEPS):
        batch = batches[number % len(batches)]
        dist.barrier()
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = model(*batch)
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        optimizer.step()
        steps.append(time.perf_counter() - began)
        backwards.append(backward - forward)
    return Probe(statistics.median(slowest(steps)[2:]), statistics.median(slowest(backwards)[2:]))


def dense_step(job: Job, batches: list[Batch], rate: str | None) -> float:
    """Seconds of a step of plain DDP."""
    with lab_link.without_limit(rate):
        model = wrap(job, parse(NAMED[0]))
    optimizer = job.optimizer(model)
    seconds = []
    for number in range(2 + DENSE_STEPS):  # DDP lays out its buckets anew after the first.
        dist.barrier()
        began = time.perf_counter()
        optimizer.zero_grad()
        model(*batches[number % len(batches)]).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - began)
    return statistics.median(slowest(seconds)[2:])


def find_rate(job: Job, batches: list[Batch]) -> Probe:
    """Guesses from the bytes of a ring, then corrects the guess by what steps really take."""
    lab_link.set_rate(None)
    probe = compute(job, batches)
    size = sum(4 * p.numel() for p in job.model().parameters())
    bits = 8 * lab_link.ring_bytes(size, dist.get_world_size())
    wanted = probe.compute_s / (1 - SHARE)
    communication = wanted - probe.compute_s + HIDDEN * probe.backward_s
    for _ in range(TRIES):
        probe.rate = _readable(bits / communication)
        lab_link.set_rate(probe.rate)
        probe.step_s = dense_step(job, batches, probe.rate)
        if abs(probe.share - SHARE) <= CLOSE:
            break
        communication = max(communication / 3, communication + wanted - probe.step_s)
    return probe


def _readable(bits_per_second: float) -> str:
    """Three figures are as exact as it gets; the unit is `tc`'s."""
    return f"{float(f'{bits_per_second / 1e6:.3g}'):g}mbit"
