"""How a contestant's gradients become means: DDP's hooks as they are, or Sluice's."""

from __future__ import annotations

import time
from typing import Any, Callable

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import sluice.torch
from training.contestants import POWERSGD_RANK, Contestant

Span = tuple[str, float, float]


def start(contestant: Contestant, model: DistributedDataParallel) -> sluice.torch.Handle | None:
    """Switches it on as a user would; Sluice's have a handle."""
    if contestant.codec is not None:
        return sluice.torch.attach(model, codec=contestant.codec, carrier=contestant.carrier,
                                   feedback=contestant.feedback)
    if contestant.name != "ddp-fp32":  # That is what DDP does without a hook.
        model.register_comm_hook(*_baseline(contestant))
    return None


def start_watched(contestant: Contestant, model: DistributedDataParallel,
                  spans: list[Span]) -> Callable[[], None]:
    """The same with notes in `spans` on when each bucket was handed over and when it was back."""
    end = None
    if contestant.codec is None:
        state, hook = _baseline(contestant)
    else:
        state = sluice.torch.SluiceState(codec=contestant.codec, carrier=contestant.carrier,
                                         feedback=contestant.feedback)
        state.start([(name, p) for name, p in model.module.named_parameters() if p.requires_grad])
        hook, end = sluice.torch.hook, state.close

    def watched(given, bucket):  # DDP refuses annotations that are texts.
        what, began = f"bucket {bucket.index()}", time.perf_counter()

        def note(future: Any) -> Any:
            spans.append((what, began, time.perf_counter()))
            return future.value()

        return hook(given, bucket).then(note)

    model.register_comm_hook(state, watched)
    return end or (lambda: None)


def _baseline(contestant: Contestant) -> tuple[Any, Callable[..., Any]]:
    if contestant.name == "ddp-fp32":
        return None, default_hooks.allreduce_hook
    if contestant.name == "ddp-bf16":
        return None, default_hooks.bf16_compress_hook
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=POWERSGD_RANK,
                                        start_powerSGD_iter=2)
    return state, powerSGD_hook.powerSGD_hook
