"""Who takes part: PyTorch's own ways to average gradients, unmodified, and Sluice's codecs."""

from __future__ import annotations

import dataclasses
from typing import Iterable

POWERSGD_RANK = 4
NAMED = "ddp-fp32", "ddp-bf16", "powersgd"
ACCEPTED = (f"{', '.join(NAMED)}, or a codec SPEC as `sluice codecs` lists them, with +ef for error"
            " feedback and @torch or @stream for the carrier, as in tide:bits=2+ef@stream")

DEFAULT = ("ddp-fp32", "ddp-bf16", "powersgd", "thc", "tide:bits=4", "tide:bits=4@stream",
           "tide:bits=3", "tide:bits=2")
QUICK = "ddp-fp32", "ddp-bf16", "tide:bits=4"
SWEEP = *QUICK, "tide:bits=4@stream"
FULL = *DEFAULT, "tide:bits=2+ef"
FULL_SPARSE = *FULL, "lossless"  # Of a dense gradient it sends more than plain DDP.
HEADS = "ddp-fp32", "thc", "tide:bits=4", "tide:bits=3", "tide:bits=2"  # It is about the loss.


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A name as users write it, and what it means."""

    name: str
    title: str
    about: str
    codec: str | None = None
    carrier: str | None = None
    feedback: str = "none"
    one_bucket: bool = False  # instead of the job's

    @property
    def kind(self) -> str:
        return "baseline" if self.codec is None else "sluice"


BASELINES = {baseline.name: baseline for baseline in (
    Contestant(NAMED[0], "DDP, Gloo float32",
               "PyTorch's DistributedDataParallel on Gloo, without a hook."),
    Contestant(NAMED[1], "DDP, bf16 hook",
               "The same with PyTorch's bf16_compress_hook: 16 bits instead of 32."),
    # Its callbacks wait for collectives on the threads that run these: with two buckets on their
    # way Gloo, which has two threads, comes to a halt.
    Contestant(NAMED[2], f"DDP, PowerSGD hook, rank {POWERSGD_RANK}, one bucket",
               f"The same with PyTorch's powerSGD_hook: factors of rank {POWERSGD_RANK}, with error"
               " feedback, from the third step on. In one bucket, because on Gloo it stands still"
               " with two on their way.", one_bucket=True),
)}


def parse(name: str) -> Contestant:
    """What a name means; codecs themselves are checked by Sluice."""
    if name in BASELINES:
        return BASELINES[name]
    spec, _, carrier = name.partition("@")
    codec, _, feedback = spec.partition("+")
    if not codec or carrier not in ("", "torch", "stream") or feedback not in ("", "ef") or \
            name.endswith(("@", "+")):
        raise ValueError(f"'{name}'; accepted: {ACCEPTED}")
    title = f"Sluice {codec}{', error feedback' if feedback else ''}" \
        f"{', aggregators' if carrier == 'stream' else ''}"
    about = (f"Sluice with codec {codec}; " +
             ("UDP to an aggregator on every rank" if carrier == "stream" else
              "the process group's collectives") +
             ("; what compression loses is sent with the next step" if feedback else "") + ".")
    return Contestant(name, title, about, codec, carrier or "torch", feedback or "none")


def in_order(names: Iterable[str]) -> list[str]:
    """Without doubles, the reference first, whether it was named or not."""
    return list(dict.fromkeys([NAMED[0], *names]))
