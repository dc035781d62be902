"""Two heads of unequal weight, each with a tower of its own, on the sources of Python's library.

A small GPT predicts the next byte. A window of convolutions says to which kind of token each byte
belongs; its loss counts 0.03, so its gradients are that much smaller. Adam does not care how small
a gradient is, so with exact means both heads learn. A codec that gives small gradients nothing
leaves the second head where it was.
"""

from __future__ import annotations

import functools
import io
import keyword
import tokenize
from typing import Iterator

import torch
import torch.nn.functional as F
from torch import nn

from training.jobs import Batch, Job, generator, gpt

LAYERS, WIDTH = 2, 128           # of the GPT
KINDS = "space", "name", "keyword", "number", "string", "comment", "operator"
KIND_WIDTH, HIDDEN, WINDOW = 32, 80, 9
TEXT_SIZE = 2_000_000            # bytes; more would take more seconds to tokenize


class KindTower(nn.Module):
    """8 % of the parameters. The embedding begins small, as a GPT's does; behind it everything is
    small until it has grown."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, KIND_WIDTH)
        self.window = nn.Conv1d(KIND_WIDTH, HIDDEN, WINDOW, padding=WINDOW // 2)
        self.hidden = nn.Linear(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, len(KINDS))
        nn.init.normal_(self.tokens.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.window(self.tokens(tokens).transpose(1, 2)).transpose(1, 2))
        logits = self.head(F.gelu(self.hidden(x)))
        return F.cross_entropy(logits.flatten(0, 1), kinds.flatten())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.kinds = gpt.Model(LAYERS, WIDTH), KindTower()

    def per_head(self, tokens: torch.Tensor, targets: torch.Tensor,
                 kinds: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.bytes(tokens, targets), self.kinds(tokens, kinds)])

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        return self.per_head(*batch) @ torch.tensor(list(Heads.heads.values()))


def kinds_of(source: bytes) -> bytes:
    """The number of its kind for every byte of a source in ASCII."""
    lines = source.splitlines(keepends=True)
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    found = bytearray(len(source))
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type == tokenize.ENCODING or token.start == token.end:
            continue
        first, end = (begins[row - 1] + column for row, column in (token.start, token.end))
        found[first:end] = bytes([KINDS.index(kind_of(token))]) * (end - first)
    return bytes(found)


def kind_of(token: tokenize.TokenInfo) -> str:
    name = tokenize.tok_name[token.type]
    if name == "NAME":
        return "keyword" if keyword.iskeyword(token.string) else "name"
    if "STRING" in name:  # From Python 3.12 on also the parts of an f-string.
        return "string"
    return {"NUMBER": "number", "COMMENT": "comment", "OP": "operator"}.get(name, "space")


@functools.cache
def text() -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes and their kinds."""
    sources, kinds = bytearray(), bytearray()
    for source in _plain_sources():
        sources += source
        kinds += kinds_of(source)
        if len(sources) >= TEXT_SIZE:
            break
    return tuple(torch.frombuffer(part, dtype=torch.uint8) for part in (sources, kinds))


def _plain_sources() -> Iterator[bytes]:
    """Those where a character is a byte, as tokens' places are counted in characters, and a line
    is what everybody takes for one."""
    return (source for source in gpt.sources()
            if source.isascii() and not set(b"\r\f\v\x1c\x1d\x1e") & set(source))


class Heads(Job):
    name = "heads"
    title = "two heads, next byte and token kind, on the sources of Python's library"
    loss_name = "held-out loss (nats per byte, weighted)"
    batch_text = gpt.Gpt.batch_text
    architecture = Model
    heads = {"next byte": 1.0, "token kind": 0.03}
    bucket_mb = 0.2
    rate = 2e-3

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW(model.parameters(), lr=self.rate)

    def batch(self, step: int, rank: int) -> Batch:
        return self._rows(gpt.drawn(len(text()[0]), generator(self.seed, step, rank)))

    def held_out(self, rank: int, ranks: int, times: int = 1) -> Batch:
        return self._rows(gpt.kept(len(text()[0]), rank, ranks, times))

    @staticmethod
    def _rows(starts: list[int]) -> Batch:
        sources, kinds = text()
        return *gpt.next_bytes(sources, starts), gpt.cut(kinds, starts)[:, :-1]
