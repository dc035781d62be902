"""A recommender: nearly all of it embedding tables, of which a batch touches few rows.

Clicks are drawn from a model of our own: every value of every feature has a weight and a small
vector, and a click's log-odds are the sum of the weights and of all pairs' products. Values follow
Zipf's law, as shops' articles and users do, so most rows of a gradient are zero.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import nn

from training.jobs import Batch, Job, generator

FEATURES, VALUES, WIDTH, NUMBERS = 16, 4096, 32, 8
HIDDEN = 128
ROWS, HELD_OUT_ROWS = 512, 16384
ZIPF = 1.05
TRUTH_WIDTH = 4


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(VALUES, WIDTH) for _ in range(FEATURES))
        self.bottom = nn.Linear(NUMBERS, WIDTH)
        pairs = (FEATURES + 1) * FEATURES // 2
        self.hidden, self.out = nn.Linear(pairs + WIDTH * (FEATURES + 1), HIDDEN), \
            nn.Linear(HIDDEN, 1)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.05)

    def forward(self, values: torch.Tensor, numbers: torch.Tensor,
                clicks: torch.Tensor) -> torch.Tensor:
        rows = [table(values[:, i]) for i, table in enumerate(self.tables)]
        both = torch.stack([*rows, F.relu(self.bottom(numbers))], dim=1)
        upper = torch.triu_indices(both.shape[1], both.shape[1], offset=1)
        pairs = (both @ both.transpose(1, 2))[:, upper[0], upper[1]]
        hidden = F.relu(self.hidden(torch.cat([pairs, both.flatten(1)], dim=1)))
        return F.binary_cross_entropy_with_logits(self.out(hidden)[:, 0], clicks)


@functools.cache
def truth() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights, vectors, weights of the numbers, and the chances of values; the same for all seeds,
    as a shop is."""
    source = generator(20)
    weights = torch.randn(FEATURES, VALUES, generator=source) * 0.45
    vectors = torch.randn(FEATURES, VALUES, TRUTH_WIDTH, generator=source) * 0.12
    chances = torch.arange(1, VALUES + 1).double().pow(-ZIPF)
    return weights, vectors, torch.randn(NUMBERS, generator=source) * 0.2, chances


def draw(count: int, source: torch.Generator) -> Batch:
    weights, vectors, number_weights, chances = truth()
    values = torch.multinomial(chances, count * FEATURES, replacement=True,
                               generator=source).view(count, FEATURES)
    numbers = torch.randn(count, NUMBERS, generator=source)
    features = torch.arange(FEATURES)
    rows = vectors[features, values]
    pairs = (rows.sum(1).square() - rows.square().sum(1)).sum(1) / 2
    odds = weights[features, values].sum(1) + pairs + numbers @ number_weights - 1.0
    clicks = torch.rand(count, generator=source) < odds.sigmoid()
    return values, numbers, clicks.float()


class Clicks(Job):
    name = "clicks"
    title = "a recommender of embedding tables on generated clicks"
    loss_name = "held-out loss (nats per click)"
    batch_text = f"{ROWS} clicks per worker"
    architecture = Model
    bucket_mb = 0.9
    rate = 2e-3

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=self.rate)

    def batch(self, step: int, rank: int) -> Batch:
        return draw(ROWS, generator(self.seed, step, rank))

    def held_out(self, rank: int, ranks: int, times: int = 1) -> Batch:
        return draw(times * HELD_OUT_ROWS // ranks, generator(21, rank))
