"""When a course reached a loss, from the losses that were noted on the way."""

from __future__ import annotations

from typing import Sequence

Losses = Sequence[Sequence[float]]  # of (step, seconds, loss), in order

TARGET_SHARE = 0.9  # of the reference's steps: the loss it has there is the target


def loss_at(losses: Losses, step: float) -> float:
    """Between two notes as on a straight line."""
    for (step0, _, loss0), (step1, _, loss1) in zip(losses, losses[1:]):
        if step0 <= step <= step1:
            return loss0 + (loss1 - loss0) * (step - step0) / (step1 - step0)
    raise ValueError(f"no loss was noted around step {step}")


def reached(losses: Losses, target: float) -> tuple[float, float] | None:
    """Step and seconds at which the loss was first no more than the target."""
    for (step0, seconds0, loss0), (step1, seconds1, loss1) in zip(losses, losses[1:]):
        if loss1 <= target:
            part = (loss0 - target) / (loss0 - loss1) if loss0 > target else 0.0
            return step0 + (step1 - step0) * part, seconds0 + (seconds1 - seconds0) * part
    return None
