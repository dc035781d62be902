"""One contestant's training: its model, its clock, its bytes, its losses."""

from __future__ import annotations

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from training import averaging, lab_link
from training.contestants import Contestant
from training.jobs import Batch, Job


class Trainee(nn.Module):
    """The job's model, which can also be asked for given gradients without computing them."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.echo: list[torch.Tensor] | None = None

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        if self.echo is None:
            return self.inner(*batch)
        # The gradient of p · g is g, so DDP sends these and nothing else is computed.
        return sum(torch.dot(p.view(-1), g.view(-1))
                   for p, g in zip(self.inner.parameters(), self.echo))


def wrap(job: Job, contestant: Contestant) -> DistributedDataParallel:
    """The job's model, in its buckets."""
    return DistributedDataParallel(Trainee(job.model()), bucket_cap_mb=1 << 14
                                   if contestant.one_bucket else job.bucket_mb)


class Course:
    """Trains in pieces, so that the contestants' pieces can take turns. The clock runs only while
    it trains, and bytes are counted only then."""

    def __init__(self, job: Job, contestant: Contestant, held_out: Batch) -> None:
        self.job, self.contestant, self._held_out = job, contestant, held_out
        self.model = wrap(job, contestant)
        self.optimizer = job.optimizer(self.model)
        self._handle = averaging.start(contestant, self.model)
        self.step, self.seconds = 0, 0.0
        self.step_seconds: list[float] = []
        self.losses: list[tuple[int, float, float]] = []
        self.heads: list[list[float]] = []  # their losses, where the job has some, as in `losses`
        self.layers: list[dict] = []
        self._sent = self._received = 0
        self.note_loss()

    def train(self, batches: list[Batch]) -> None:
        """One step per batch."""
        dist.barrier()
        before, began = lab_link.counters(), time.perf_counter()
        for batch in batches:
            self._train_on(batch)
            now = time.perf_counter()
            self.step_seconds.append(now - began)
            self.seconds += now - began
            began = now
        dist.barrier()  # An aggregator here may still have had results for others.
        after = lab_link.counters()
        if before and after:
            self._sent += after[0] - before[0]
            self._received += after[1] - before[1]

    def _train_on(self, batch: Batch) -> None:
        self.job.set_rate(self.optimizer, self.step)
        self.optimizer.zero_grad()
        self.model(*batch).backward()
        self.optimizer.step()
        self.step += 1

    def note_loss(self) -> None:
        """On the data that is held out; all ranks get the mean over all."""
        inner, weights = self.model.module.inner, list(self.job.heads.values())
        with torch.no_grad():
            found = (inner.per_head if weights else inner)(*self._held_out).double()
        dist.all_reduce(found)
        found /= dist.get_world_size()
        if weights:
            self.heads.append(found.tolist())
            found = found @ torch.tensor(weights, dtype=torch.float64)
        self.losses.append((self.step, self.seconds, found.item()))

    def exact_means(self, batch: Batch) -> list[torch.Tensor]:
        """Of the gradients that the next step will have."""
        self.optimizer.zero_grad()
        with self.model.no_sync():
            self.model(*batch).backward()
        means = [p.grad.double() for p in self.model.parameters()]
        for mean in means:
            dist.all_reduce(mean)
            mean /= dist.get_world_size()
        return means

    def note_errors(self, means: list[torch.Tensor]) -> None:
        """Of the last step's mean gradients against the true ones, per layer."""
        for (name, parameter), mean in zip(self.model.module.named_parameters(), means):
            energy = mean.square().sum().item()
            error = (parameter.grad.double() - mean).square().sum().item()
            self.layers.append({"name": name.removeprefix("inner."), "count": parameter.numel(),
                                "energy": energy, "vnmse": error / energy if energy else None})

    def bytes_per_step(self) -> tuple[float | None, float | None]:
        """Sent and received, the mean over the ranks; collective."""
        counted = torch.tensor([self._sent, self._received], dtype=torch.float64)
        dist.all_reduce(counted)
        sent, received = (counted / dist.get_world_size() / max(1, self.step)).tolist()
        return (sent, received) if lab_link.counters() else (None, None)

    def stats(self) -> dict | None:
        """What Sluice counted on this rank."""
        return self._handle and self._handle.stats()

    def end(self) -> None:
        if self._handle:
            self._handle.detach()
