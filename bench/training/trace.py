"""Where a step's time goes: computing alone, communicating alone, and both at once.

Done with a second model of the same contestant, so that steps which only compute or only
communicate leave nothing behind in the residuals and factors of the one that trains.
"""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist

from training import averaging
from training.averaging import Span
from training.contestants import Contestant
from training.course import wrap
from training.jobs import Batch, Job
from training.probe import slowest

WARMUP = 3  # steps; PowerSGD begins with the third


class Trace:
    """Runs the three kinds of steps in turn, so that the machine's moods hit all of them."""

    def __init__(self, job: Job, contestant: Contestant, batches: list[Batch]) -> None:
        self._batches = batches
        self._spans: list[Span] = []
        self._model = wrap(job, contestant)
        self._optimizer = job.optimizer(self._model)
        self._end = averaging.start_watched(contestant, self._model, self._spans)

    def run(self, rounds: int) -> dict:
        """Medians over the rounds, of the slowest rank, and the timeline of one step of rank 0."""
        for number in range(WARMUP):
            self._step(number)
        echo = [p.grad.clone() for p in self._model.parameters()]
        compute, communicate, both, lines, used = [], [], [], [], [0.0, 0.0]
        for number in range(rounds):
            before = time.process_time()
            with self._model.no_sync():
                compute.append(self._step(number))
            used[0] += (time.process_time() - before) / rounds
            communicate.append(self._communicate(echo))
            self._spans.clear()
            before = time.process_time()
            both.append(self._step(number))
            used[1] += (time.process_time() - before) / rounds
            lines.append(_timeline(self._spans))
        compute, communicate, both = (slowest(times) for times in (compute, communicate, both))
        used = slowest(used)
        self._end()
        step = statistics.median_low(both)
        alone = statistics.median(compute)
        return {"compute_s": alone, "communication_s": statistics.median(communicate),
                "compute_cpu_s": used[0], "step_cpu_s": used[1], "step_s": step,
                "exposed_s": max(0.0, step - alone),
                "spans": lines[both.index(step)]}

    def _step(self, number: int) -> float:
        dist.barrier()
        began = time.perf_counter()
        self._optimizer.zero_grad()
        loss = self._model(*self._batches[number % len(self._batches)])
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        self._optimizer.step()
        end = time.perf_counter()
        self._spans += [("forward", began, forward), ("backward", forward, backward),
                        ("optimizer", backward, end)]
        return end - began

    def _communicate(self, echo: list[torch.Tensor]) -> float:
        """Given gradients through DDP's buckets and the contestant's hook."""
        self._model.module.echo = echo
        self._optimizer.zero_grad()
        loss = self._model()
        dist.barrier()
        began = time.perf_counter()
        loss.backward()
        self._model.module.echo = None
        return time.perf_counter() - began


def _timeline(spans: list[Span]) -> list[dict]:
    """In order, from 0. DDP waits for the buckets at the end of the backward pass, which has
    nothing left to compute once the last one is handed over."""
    spans = sorted(spans, key=lambda span: span[1])
    first = spans[0][1]
    handed_over = max(began for what, began, _ in spans if what.startswith("bucket"))
    cut = []
    for what, began, ended in spans:
        if what == "backward":
            cut += [(what, began, handed_over), ("wait", handed_over, ended)]
        else:
            cut.append((what, began, ended))
    return [{"what": what, "from": began - first, "to": ended - first}
            for what, began, ended in cut]
