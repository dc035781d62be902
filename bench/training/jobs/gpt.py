"""A small GPT on text that every machine with Python has: the sources of Python's library."""

from __future__ import annotations

import functools
import pathlib
import sysconfig
from typing import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from training.jobs import Batch, Job, generator

LAYERS, WIDTH, HEADS, CONTEXT = 4, 192, 4, 64
ROWS, HELD_OUT_ROWS = 8, 32      # per rank and step; in all
HELD_OUT_SHARE = 0.05            # of the text, its end
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, layers: int = LAYERS, width: int = WIDTH) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def sources() -> Iterator[bytes]:
    """The files, in an order that does not depend on the file system."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(path for path in root.rglob("*.py")
                       if not SKIPPED & set(path.relative_to(root).parts)):
        yield path.read_bytes()


@functools.cache
def text() -> torch.Tensor:
    """All of it, as bytes."""
    return torch.frombuffer(bytearray(b"".join(sources())), dtype=torch.uint8)


class Gpt(Job):
    name = "gpt"
    title = "a small GPT on the sources of Python's library"
    loss_name = "held-out loss (nats per byte)"
    batch_text = f"{ROWS} x {CONTEXT} bytes per worker"
    architecture = Model
    bucket_mb = 0.7
    rate = 1e-3

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=self.rate)

    def batch(self, step: int, rank: int) -> Batch:
        return next_bytes(text(), drawn(len(text()), generator(self.seed, step, rank)))

    def held_out(self, rank: int, ranks: int, times: int = 1) -> Batch:
        return next_bytes(text(), kept(len(text()), rank, ranks, times))


def drawn(length: int, source: torch.Generator) -> list[int]:
    """Where the rows of a batch begin, in a text of that length."""
    end = int(length * (1 - HELD_OUT_SHARE)) - CONTEXT - 1
    return torch.randint(end, (ROWS,), generator=source).tolist()


def kept(length: int, rank: int, ranks: int, times: int) -> list[int]:
    """Where a rank's held-out rows begin: evenly over the text's end."""
    first = int(length * (1 - HELD_OUT_SHARE))
    stride = (length - first - CONTEXT - 1) // (times * HELD_OUT_ROWS)
    starts = range(first + rank * stride, length - CONTEXT - 1, ranks * stride)
    return list(starts)[:times * HELD_OUT_ROWS // ranks]


def cut(values: torch.Tensor, starts: list[int]) -> torch.Tensor:
    """A row of CONTEXT + 1 from each start."""
    return torch.stack([values[start:start + CONTEXT + 1] for start in starts]).long()


def next_bytes(values: torch.Tensor, starts: list[int]) -> Batch:
    rows = cut(values, starts)
    return rows[:, :-1], rows[:, 1:]
