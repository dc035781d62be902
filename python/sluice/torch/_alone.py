"""A job of one rank: nothing travels, so nothing is compressed and no noise is added.

Gradients come back as they were. What a job of more ranks still owed them, as loaded residuals, is
paid with the first step.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.distributed as dist

from sluice.torch import _native
from sluice.torch._work import BucketWork, DenseWork


def is_alone(group: Any) -> bool:
    """Whether a process group, or all there is, has one rank."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size(group) == 1


class Alone:
    """Stands for `Ranks` where there is nobody else: no process groups, no threads."""

    rank, size = 0, 1
    gathers_flat = False

    def __init__(self) -> None:
        self._paid: set[int] = set()  # tensors whose memories are known to be zero
        self._infinite = False

    def agree(self, facts: dict[str, Any]) -> None:
        """With oneself."""

    def on_loss(self, act: Callable[[], None]) -> None:
        """Nobody can be lost."""

    def at_step(self, step: int) -> None:
        """Nobody asks."""

    def check(self, position: Callable[[], str]) -> None:
        """Nobody can have gone."""

    def agree_between_steps(self, what: str, step: int, facts: dict[str, Any]) -> None:
        """With oneself."""

    def refuse_between_steps(self, what: str, step: int, why: BaseException) -> None:
        """Nobody waits."""

    def say_goodbye(self) -> None:
        """To nobody."""

    def close(self) -> None:
        """There is nothing to give back."""

    def memories_changed(self) -> None:
        """They were loaded."""
        self._paid.clear()

    def average(self, work: BucketWork, memory: _native.Memory) -> None:
        """The bucket as it is, with what is still owed to its tensors."""
        if isinstance(work, DenseWork):
            owed = [one for one in work.plan.slices if self._is_owed(memory, one[0])]
            if owed:
                self._pay(work, owed, memory)

    def _is_owed(self, memory: _native.Memory, tensor: int) -> bool:
        if tensor in self._paid:
            return False
        for values in memory.kept(tensor).values():
            if torch.frombuffer(values, dtype=torch.float32).any():
                return True
        self._paid.add(tensor)
        return False

    def _pay(self, work: DenseWork, owed: list[tuple[int, int, int]],
             memory: _native.Memory) -> None:
        work.unpack()
        base = work.floats.data_ptr()
        for tensor, at, count in owed:
            memory.pay(tensor, base + 4 * at, count)
            self._infinite |= not torch.isfinite(work.floats[at:at + count]).all()
        self._infinite |= work.repack(memory)

    def end_step(self, memory: _native.Memory) -> bool:
        """Whether it had Inf or NaN, which scalers throw away: then it has paid nothing."""
        infinite, self._infinite = self._infinite, False
        if infinite:
            memory.undo_step()
        else:
            memory.end_step()
        return infinite
