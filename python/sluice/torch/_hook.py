"""The DDP communication hook.

In a file without `from __future__ import annotations`: DDP compares the annotations' values.
"""

from typing import Any, Union

import torch
import torch.distributed as dist

from sluice.torch._state import State


class Attachment:
    """What DDP has of attach(). DDP cannot take its hook back, but the state behind it can change:
    attach() after detach() puts another one there."""

    def __init__(self, state: State) -> None:
        self.state = state


def hook(state: Union[State, Attachment],
         bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The DDP communication hook: `ddp_model.register_comm_hook(SluiceState(…), hook)`."""
    if isinstance(state, Attachment):
        state = state.state
    if state.detached:
        return _plain(state.process_group, bucket)
    return state.submit(bucket)


def _plain(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    group = group or dist.group.WORLD
    buffer = bucket.buffer().div_(dist.get_world_size(group))
    future = dist.all_reduce(buffer, group=group, async_op=True).get_future()
    return future.then(lambda done: done.value()[0])
