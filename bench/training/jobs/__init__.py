"""What is trained: a job is a model, its data and how it is optimised, the same for everybody."""

from __future__ import annotations

import abc

import torch
from torch import nn

Batch = tuple[torch.Tensor, ...]


class Job(abc.ABC):
    """One training job. All that is random follows from the seed, so runs can be paired."""

    name: str
    title: str
    loss_name: str
    batch_text: str
    # Its forward takes a batch and returns the mean loss. Where there are heads, its method
    # per_head takes a batch too and returns the mean loss of each.
    architecture: type[nn.Module]
    heads: dict[str, float] = {}    # name and weight in the loss; none: there is one loss
    bucket_mb: float    # of DDP, so that there are at least eight buckets
    rate: float         # the optimizer's
    warmup: int = 10    # steps over which that is reached

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def model(self) -> nn.Module:
        """Initialised."""
        torch.manual_seed(self.seed)
        return self.architecture()

    @abc.abstractmethod
    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """For all parameters of the model."""

    @abc.abstractmethod
    def batch(self, step: int, rank: int) -> Batch:
        """What a rank learns from in a step."""

    @abc.abstractmethod
    def held_out(self, rank: int, ranks: int, times: int = 1) -> Batch:
        """A rank's share of the data that is never learned from; shares have the same size. With
        `times` as much of it, losses differ less by chance."""

    def set_rate(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Warm-up, then constant: the loss goes on falling, so that a target near the end means
        something."""
        for group in optimizer.param_groups:
            group["lr"] = self.rate * min(1.0, (step + 1) / self.warmup)


def make(name: str, seed: int) -> Job:
    """The job of that name."""
    # Here, because the jobs' modules need Job.
    from training.jobs.clicks import Clicks
    from training.jobs.gpt import Gpt
    from training.jobs.heads import Heads
    return {job.name: job for job in (Gpt, Clicks, Heads)}[name](seed)


def generator(*key: int) -> torch.Generator:
    """Randomness of its own for every key, in any order of use."""
    seed = 0
    for part in key:
        seed = (seed * 1_000_003 + part + 1) % (1 << 62)
    return torch.Generator().manual_seed(seed)
