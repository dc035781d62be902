"""Who takes part: PyTorch's own ways to average gradients, unmodified, and Sluice's codecs."""

from __future__ import annotations

import dataclasses

NAMED = "ddp-fp32", "ddp-bf16", "powersgd"
POWERSGD_RANK = 4
ACCEPTED = (f"{', '.join(NAMED)}, or a codec SPEC as `sluice codecs` lists them, with +ef for error"
            " feedback and @torch or @stream for the carrier, as in tide:bits=2+ef@stream")

DEFAULT = "ddp-fp32", "ddp-bf16", "powersgd", "thc", "tide:bits=4", "tide:bits=4@stream"
QUICK = "ddp-fp32", "ddp-bf16", "tide:bits=4", "tide:bits=4@stream"
FULL = *DEFAULT, "tide:bits=2+ef"


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A name as users write it, and what it means."""

    name: str
    title: str
    codec: str | None = None
    carrier: str | None = None
    feedback: str = "none"
    one_bucket: bool = False  # instead of the job's

    @property
    def kind(self) -> str:
        return "baseline" if self.codec is None else "sluice"


def parse(name: str) -> Contestant:
    """What a name means; codecs themselves are checked by Sluice."""
    titles = dict(zip(NAMED, ("DDP, Gloo float32", "DDP, bf16 hook",
                              f"DDP, PowerSGD hook, rank {POWERSGD_RANK}, one bucket")))
    if name in titles:
        # PowerSGD's callbacks wait for collectives on the threads that run these: with two buckets
        # on their way Gloo, which has two threads, comes to a halt.
        return Contestant(name, titles[name], one_bucket=name == "powersgd")
    spec, _, carrier = name.partition("@")
    codec, _, feedback = spec.partition("+")
    if not codec or carrier not in ("", "torch", "stream") or feedback not in ("", "ef") or \
            name.endswith(("@", "+")):
        raise ValueError(f"'{name}'; accepted: {ACCEPTED}")
    title = f"Sluice {codec}{', error feedback' if feedback else ''}" \
        f"{', aggregators' if carrier == 'stream' else ''}"
    return Contestant(name, title, codec, carrier or "torch", feedback or "none")


def parse_all(names: list[str]) -> list[Contestant]:
    """Without doubles, the reference first, whether it was named or not."""
    return [parse(name) for name in dict.fromkeys([NAMED[0], *names])]
