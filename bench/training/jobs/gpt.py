"""A small GPT on text that every machine with Python has: the sources of Python's library."""

from __future__ import annotations

import functools
import pathlib
import sysconfig

import torch
import torch.nn.functional as F
from torch import nn

from training.jobs import Batch, Job, generator

LAYERS, WIDTH, HEADS, CONTEXT = 4, 192, 4, 64
ROWS, HELD_OUT_ROWS = 8, 32      # per rank and step; in all
HELD_OUT_SHARE = 0.05            # of the text, its end
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "__pycache__"}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, _ = x.shape
        q, k, v = (part.view(rows, length, HEADS, -1).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256, bias=False)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places.weight[:tokens.shape[1]]
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@functools.cache
def text() -> torch.Tensor:
    """All of it, as bytes, in an order that does not depend on the file system."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in root.rglob("*.py")
                   if not SKIPPED & set(path.relative_to(root).parts))
    return torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in files)),
                            dtype=torch.uint8)


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
        end = int(len(text()) * (1 - HELD_OUT_SHARE)) - CONTEXT - 1
        starts = torch.randint(end, (ROWS,), generator=generator(self.seed, step, rank))
        return _rows(starts.tolist())

    def held_out(self, rank: int, ranks: int) -> Batch:
        first = int(len(text()) * (1 - HELD_OUT_SHARE))
        stride = (len(text()) - first - CONTEXT - 1) // HELD_OUT_ROWS
        return _rows(range(first + rank * stride, len(text()) - CONTEXT - 1, ranks * stride),
                     HELD_OUT_ROWS // ranks)


def _rows(starts, count: int | None = None) -> Batch:
    rows = torch.stack([text()[start:start + CONTEXT + 1] for start in list(starts)[:count]])
    return rows[:, :-1].long(), rows[:, 1:].long()
