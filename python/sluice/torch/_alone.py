"""A job of one rank: nothing travels, so nothing is compressed and no noise is added.

Gradients come back as they were. What a job of more ranks still owed them, as loaded residuals, is
paid with the first step.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.distributed as dist

from sluice.torch import _native
from sluice.torch._work import Tensor, Work

if TYPE_CHECKING:
    from sluice.torch._state import State


def is_alone(group: Any) -> bool:
    """Whether a process group, or all there is, has one rank."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size(group) == 1


class Alone:
    """Stands for `Ranks` where there is nobody else: no process groups, no threads."""

    rank, size = 0, 1
    gathers_flat = False

    def __init__(self) -> None:
        self._paid: set[int] = set()  # tensors whose residuals are known to be zero
        self._before: list[tuple[Tensor, Tensor]] = []  # residuals of this step, and their copies
        self._infinite = False

    def agree(self, facts: dict[str, Any]) -> None:
        """With oneself."""

    def on_loss(self, act: Callable[[], None]) -> None:
        """Nobody can be lost."""

    def at_step(self, step: int) -> None:
        """Nobody asks."""

    def check(self, position: str) -> None:
        """Nobody can have gone."""

    def say_goodbye(self) -> None:
        """To nobody."""

    def close(self) -> None:
        """There is nothing to give back."""

    def residuals_changed(self) -> None:
        """They were loaded."""
        self._paid.clear()

    def average(self, state: "State", bucket: dist.GradBucket,
                last: bool) -> torch.futures.Future:
        """The bucket as it is, with the residuals of its tensors."""
        work = Work(bucket, state.step)
        if state.settings.feedback != "none" and not work.buffer.is_sparse:
            self._pay(state, work, bucket.parameters())
        state.count_bucket()
        if last:
            state.count_step(skipped=self._end_step())
        work.future.set_result(work.result)
        return work.future

    def _pay(self, state: "State", work: Work, parameters: list[Tensor]) -> None:
        for index, at, count in state.tensors.cut(work.buffer, parameters, work.where):
            if index == _native.EXACT or index in self._paid:
                continue
            address, _ = state.memory.residual(index)
            residual = torch.frombuffer((ctypes.c_float * count).from_address(address),
                                        dtype=torch.float32)
            if not residual.any():
                self._paid.add(index)
                continue
            self._before.append((residual, residual.clone()))
            part = work.buffer[at:at + count]
            total = part + residual.to(part.device)
            part.copy_(total)
            residual.copy_(total - part)  # what half precision cannot hold: none of float32
            self._infinite |= not torch.isfinite(part).all()

    def _end_step(self) -> bool:
        """Whether it had Inf or NaN, which scalers throw away: then it has paid nothing."""
        infinite, self._infinite = self._infinite, False
        before, self._before = self._before, []
        if infinite:
            for residual, copy in before:
                residual.copy_(copy)
        return infinite
