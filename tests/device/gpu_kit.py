"""What the cases on a GPU share: ranks on one device, models there, and what the host gives."""

import contextlib
import os
from unittest import mock

import ddp_kit as kit
import torch
import torch.distributed as dist

from sluice import _library
from sluice.torch import _groups as _sluice_groups

WAYS = ("gloo", "nccl")
EF = {"codec": "tide:bits=4", "feedback": "ef", "min_size": 0, "check_every": 2}
# Several buckets, several chunks, odd lengths, vectors and what is exact.
SHAPES = {"a": (300, 1000), "b": (33, 129), "c": (515,), "d": (700, 501), "e": (3, 5, 257),
          "f": (1024, 260), "g": (1,)}
BUCKETS = {"bucket_cap_mb": 0.5}
_groups = {}


def prepare(rank):
    """This process's own: NCCL takes ranks of one host and GPU for a mistake."""
    os.environ["NCCL_HOSTID"] = f"rank-{rank}"
    torch.cuda.set_device(0)


def nccl_group(**options):
    """A process group of NCCL beside the launcher's of Gloo, one for each case; options of the
    first call."""
    default = dist.distributed_c10d._get_default_group()
    if default not in _groups:
        _groups.clear()
        _groups[default] = dist.new_group(backend="nccl", **options)
    return _groups[default]


def leave_errors_to_us():
    """Torch does not end this process for a collective of the case's own that hangs, whose group is
    made after this."""
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"


def abort_nccl_group():
    """What waits on the device in the case's own collectives ends."""
    _sluice_groups.abort(nccl_group(), torch.device("cuda", 0))


@contextlib.contextmanager
def host_codecs():
    """What attaches within finds no GPU, and goes through the host."""
    with mock.patch.object(_library, "gpu_status", return_value="switched off by a test"):
        yield


def attached(way, model, ddp=None, **options):
    """(DDP model, handle). "cpu": there; "host": on the GPU, codecs on the host; else DDP's backend
    says the way."""
    model = model if way == "cpu" else model.cuda()
    group = {"process_group": nccl_group()} if way == "nccl" else {}
    with host_codecs() if way == "host" else contextlib.nullcontext():
        options = {**({"tracks": 4} if way == "nccl" else {}), **options}
        wrapped, handle = kit.attached(model, ddp={**BUCKETS, **group, **(ddp or {})}, **options)
    place = handle.state.place
    assert (place.on_device, place.backend) == (way in WAYS, way if way in WAYS else "gloo"), place
    return wrapped, handle


def to(way, given):
    """Tensors by name where the model is."""
    return given if way == "cpu" else {name: one.cuda() for name, one in given.items()}


def bits(values):
    """As kit.bits, of what is on a GPU too."""
    if isinstance(values, torch.nn.Module):
        values = dict(values.named_parameters())
    return kit.bits({name: value.detach().cpu() for name, value in values.items()})


def residuals(handle):
    return kit.bits(kit.contents(handle)["residuals"])


def train(ddp, rank, steps, first=0, optimizer=None, autocast=None):
    """Plain steps of kit.net() on the GPU."""
    optimizer = optimizer or torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(first, first + steps):
        inputs, wanted = (one.cuda() for one in kit.batch(rank, step))
        optimizer.zero_grad(set_to_none=True)
        with autocast or contextlib.nullcontext():
            loss = torch.nn.functional.mse_loss(ddp(inputs).float(), wanted)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
