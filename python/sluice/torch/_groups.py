"""Process groups as torch makes and ends them: here its versions differ.

Of NCCL it has several backends. What 'nccl' makes is ProcessGroupNCCL, or from torch 2.15 on
ProcessGroupNCCL2, whose name is 'nccl2'.
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import os
import re
from typing import Any, Iterator, Sequence

import torch
import torch.distributed as dist

from sluice.torch._settings import TIMEOUT_MAX

TORCH = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))

# NCCL's errors and time-outs in our groups are ours to tell: torch would end the process for them,
# and before that wait for reports of what was under way.
OURS_TO_TELL = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_BLOCKING_WAIT": "0",
                "TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "0"}
if TORCH < (2, 2):  # Later versions warn of these names.
    OURS_TO_TELL.update({"NCCL_ASYNC_ERROR_HANDLING": "0", "NCCL_BLOCKING_WAIT": "0"})

ABORTS = ("abort", "_abort", "_shutdown")  # what a backend of NCCL may call it; later ones first
CONNECT_BYTES = 1 << 20  # of the larger collectives by which NCCL connects


def default_group() -> Any:
    return dist.distributed_c10d._get_default_group()


def _registered(group: Any, device: torch.device) -> Any:
    """Before torch 2 a group is its own backend."""
    return group._get_backend(device) if hasattr(group, "_get_backend") else group


def backend_of(group: Any, device: torch.device) -> Any:
    """What runs a group's collectives on that device. With TORCH_DISTRIBUTED_DEBUG=DETAIL it is
    wrapped in another, which has no options and compares all calls between the ranks first."""
    backend = _registered(group, device)
    while getattr(backend, "wrapped_pg", None) is not None:
        backend = backend.wrapped_pg
    return backend


def is_nccl(group: Any, device: torch.device) -> bool:
    """Whether a group, or all there is, moves bytes of that device by NCCL."""
    group = group or default_group()
    try:
        name = backend_of(group, device).name()
    except (AttributeError, RuntimeError):
        name = dist.get_backend(group)
    return str(name).startswith("nccl")


def own_timeout(group: Any) -> float:
    """Seconds: 0.9 of those of the process group, so that ours says who is missing before the other
    ends the job."""
    group = group or default_group()
    found = []
    for device in ("cpu", "cuda"):
        try:
            found.append(backend_of(group, torch.device(device)).options._timeout)
        except (AttributeError, RuntimeError):  # No such backend, or one without options.
            pass
    least = min(found, default=dist.distributed_c10d.default_pg_timeout)
    return min(0.9 * least.total_seconds(), TIMEOUT_MAX)


# --- making ---


@contextlib.contextmanager
def own_numbers(attached: int) -> Iterator[None]:
    """Numbers process groups apart from the user's while they are made.

    Where only some ranks make them, the count that torch takes names from would differ between the
    ranks afterwards, and the user's next new_group would hang.
    """
    world = getattr(dist.distributed_c10d, "_world", None)
    if not hasattr(world, "group_count"):
        yield
        return
    before, world.group_count = world.group_count, 10**9 + 1000 * attached
    try:
        yield
    finally:
        world.group_count = before


@contextlib.contextmanager
def unbound() -> Iterator[None]:
    """Hides while groups are made that the default group is bound to a device.

    Torch would split its communicator for ours, which all ranks have to take part in, also those
    that are not to be in it; and nothing ends that when one of them has died.
    """
    group = default_group()
    device = getattr(group, "bound_device_id", None)
    if device is None:
        yield
        return
    group.bound_device_id = None
    try:
        yield
    finally:
        group.bound_device_id = device


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Has these variables, which torch reads when it makes a process group."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def new(ranks: Sequence[int], backend: str, seconds: float, device: torch.device) -> Any:
    """A group of these ranks, made by them alone."""
    whole = len(ranks) == dist.get_world_size()
    timeout = datetime.timedelta(seconds=seconds)
    more: dict[str, Any] = {} if whole else {"use_local_synchronization": True}
    nccl = backend == "nccl"
    if nccl:
        more["pg_options"] = options = dist.ProcessGroupNCCL.Options(True)  # soon on the device
        options._timeout = timeout
        # Torch 2.6 and 2.7.0 take a group that is bound to a device for one whose calls do not
        # block, with which NCCL 2.26 hangs: pytorch issue 153960.
        if hasattr(options, "config") and "TORCH_NCCL_USE_COMM_NONBLOCKING" not in os.environ:
            options.config.blocking = 1
        # Else nccl2 takes the device from LOCAL_RANK, or from the number of the rank.
        if "device_id" in inspect.signature(dist.new_group).parameters:
            more["device_id"] = device
    with _environment(OURS_TO_TELL if nccl else {}):
        return dist.new_group(ranks=None if whole else list(ranks), backend=backend,
                              timeout=timeout, **more)


def connect(group: Any, size: int, device: torch.device) -> None:
    """NCCL connects, and loads kernels, at the first collective of a kind and of a length: better
    now than in a backward pass, beside collectives that wait.

    On a stream of its own: if a rank dies now, what else the device does goes on.
    """
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for each in (4, CONNECT_BYTES // size // 4 * 4):
            mine = torch.zeros(size * each, dtype=torch.uint8, device=device)
            every = torch.empty_like(mine)
            dist.all_to_all_single(every, mine, group=group)
            dist.all_gather_into_tensor(every, mine[:each], group=group)
            for operation in (dist.ReduceOp.MAX, dist.ReduceOp.SUM):
                dist.all_reduce(mine.view(torch.int32), op=operation, group=group)
    stream.synchronize()


# --- ending ---


def lacks_abort() -> str:
    """Why our groups are not NCCL's with this torch, or ""."""
    known = getattr(dist, "ProcessGroupNCCL", None)
    if hasattr(dist.distributed_c10d, "_abort_process_group") or \
            known is None or any(hasattr(known, name) for name in ABORTS):
        return ""
    return (f"torch {torch.__version__} cannot end NCCL's collectives when a rank has gone;"
            " accepted: torch 2.2 or later")


def abort(group: Any, device: torch.device) -> None:
    """Gives a group of NCCL's back in the middle of its collectives, which end."""
    backend = backend_of(group, device)
    at_once = getattr(dist.distributed_c10d, "_abort_process_group", None)
    if at_once is None or backend is not _registered(group, device):
        # A wrapper need not pass it on, and destroy_process_group would wait.
        found = [name for name in ABORTS if hasattr(backend, name)]
        for name in found[:1]:
            getattr(backend, name)()
    (at_once or dist.destroy_process_group)(group)
