"""What the cases share: models whose gradients are known, training, and the bits of things."""

import contextlib
import functools
import gc
import hashlib
import inspect
import itertools
import os
import threading
import unittest
from unittest import mock

import launched_ranks
import torch
from torch.nn.parallel import DistributedDataParallel

import sluice.torch
from sluice.torch import _native

TIMEOUT = 40.0  # seconds: less than a process group's, so that Sluice says first what is wrong
TORCH = tuple(int("".join(itertools.takewhile(str.isdigit, part)) or 0)
              for part in torch.__version__.split(".")[:2])

WEIGHTS_ONLY = {"weights_only": True} \
    if "weights_only" in inspect.signature(torch.load).parameters else {}


def case(function=None, *, sizes=(2, 3)):
    """Marks a function as a case and says for how many ranks."""
    if function is None:
        return functools.partial(case, sizes=sizes)
    function.sizes = sizes
    return function


def cases_of(module, size):
    """Full names of a module's cases, in the order they are written."""
    return [f"{module.__name__}.{name}" for name, function in vars(module).items()
            if size in getattr(function, "sizes", ()) and function.__module__ == module.__name__]


def needs_torch(major, minor, what):
    if TORCH < (major, minor):
        raise unittest.SkipTest(f"torch {torch.__version__} has no {what}")


# --- models ---


class Given(torch.autograd.Function):
    """Zero, with a gradient of one's choice (times what comes from above, as for a scaler)."""

    @staticmethod
    def forward(ctx, parameter, gradient):
        ctx.save_for_backward(gradient)
        return parameter.new_zeros((), dtype=torch.float32)

    @staticmethod
    def backward(ctx, above):
        gradient, = ctx.saved_tensors
        return gradient * above.to(gradient.dtype), None


class Sheet(torch.nn.Module):
    """Parameters whose gradients are what forward() is given."""

    def __init__(self, shapes, dtype=torch.float32):
        super().__init__()
        for name, shape in shapes.items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape, dtype=dtype)))

    def forward(self, gradients):
        return sum(Given.apply(getattr(self, name), given) for name, given in gradients.items())


def net(seed=0):
    """A small network: two matrices beyond 4096 elements, one of more than a chunk, biases."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 700), torch.nn.ReLU(),
            torch.nn.Linear(700, 10))


def wrap(model, **options):
    """DDP; with a bucket_cap_mb that also holds for the first bucket, which has 1 MiB else."""
    first = int(options.get("bucket_cap_mb", 1) * 2**20)
    with mock.patch.object(torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", first):
        return DistributedDataParallel(model, **options)


def attach(ddp, codec=None, **options):
    """As a user would, with fewer threads; detached when the case is over."""
    options = {"tracks": 2, "timeout": TIMEOUT, **options}
    handle = sluice.torch.attach(ddp, codec, **options)
    launched_ranks.later(handle.detach)
    return handle


def attached(model, codec=None, ddp=None, **options):
    """(DDP model, handle)."""
    wrapped = wrap(model, **(ddp or {}))
    return wrapped, attach(wrapped, codec, **options)


# --- gradients and training ---


def gradient(rank, step, shape, dtype=torch.float32, scale=1.0):
    """Known to every rank: what a rank's gradient is at a step."""
    seed = 1 + rank + 1000 * step + 1_000_000 * len(shape)
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale
    return values.to(dtype)


def gradients(rank, step, shapes, **options):
    return {name: gradient(rank, step, shape, **options) for name, shape in shapes.items()}


def mean_in_order_of_rank(values):
    """As f32 computes it: float32 sums in order of rank, divided once."""
    total = values[0].float().clone()
    for value in values[1:]:
        total += value.float()
    return total / len(values)


def exact_means(size, step, shapes, **options):
    return {name: mean_in_order_of_rank([gradient(r, step, shape, **options) for r in range(size)])
            for name, shape in shapes.items()}


def backward(ddp, *given):
    """One step of a Sheet; the gradients as DDP leaves them."""
    ddp.zero_grad(set_to_none=True)
    ddp(*given).backward()
    return {name: p.grad for name, p in ddp.module.named_parameters()}


def batch(rank, step, rows=8):
    generator = torch.Generator().manual_seed(7 + rank + 1000 * step)
    return torch.randn(rows, 64, generator=generator), torch.randn(rows, 10, generator=generator)


def train(ddp, rank, steps, optimizer=None, first=0):
    """Plain steps from `first` on; the losses."""
    optimizer = optimizer or torch.optim.SGD(ddp.parameters(), lr=0.1)
    losses = []
    for step in range(first, first + steps):
        inputs, wanted = batch(rank, step)
        loss = torch.nn.functional.mse_loss(ddp(inputs), wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# --- looking at things ---


def bits(values):
    """A digest of the bits of a module's parameters, or of tensors by name."""
    if isinstance(values, torch.nn.Module):
        values = dict(values.named_parameters())
    digest = hashlib.sha256()
    for name in sorted(values):
        digest.update(name.replace("module.", "").replace("_orig_mod.", "").encode())
        digest.update(raw(values[name]))
    return digest.hexdigest()[:16]


def raw(tensor):
    return bytes(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy())


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and raw(one) == raw(other)


def check_same(got, wanted, what):
    """All tensors of two dicts have the same bits."""
    assert set(got) == set(wanted), f"{what}: {sorted(got)} instead of {sorted(wanted)}"
    for name, value in wanted.items():
        assert same_bits(got[name], value), (
            f"{what}: {name} differs, by {(got[name].double() - value.double()).abs().max():g}")


def relative_error(got, wanted):
    """Energy of the error over that of what is wanted."""
    return float((got.double() - wanted.double()).pow(2).sum() / wanted.double().pow(2).sum())


def contents(handle):
    """What the memory of a handle or hook holds, by name: a state as version 2 had it."""
    state = getattr(handle, "state", handle)
    memory, tensors = state.memory, state.tensors.dense
    kept = {which: {name: torch.frombuffer(memory.kept(index)[which], dtype=torch.float32).clone()
                    for name, index in tensors.items() if memory.kept(index)}
            for which in memory.kept_names()}
    codecs = {name: memory.spec(index) for name, index in tensors.items()}
    return {"version": 2, "rank": state.ranks.rank, "world": state.ranks.size, "step": state.step,
            "feedback": state.settings.feedback, "codecs": codecs,
            "models": {spec: as_bytes(memory.model(spec)) for spec in codecs.values()},
            "residuals": kept.pop("residual", {}), "memories": kept,
            "states": {name: as_bytes(memory.state(index)) for name, index in tensors.items()
                       if len(memory.state(index))}}


def as_bytes(array):
    return torch.tensor(list(bytes(array)), dtype=torch.uint8)


def lane_threads():
    return [t for t in threading.enumerate() if t.name.startswith("sluice-track-")]


def thread_count():
    """Of this process, as the system counts them."""
    gc.collect()
    return len(os.listdir("/proc/self/task"))


@contextlib.contextmanager
def fails(kind, *parts):
    """The block raises it with a text that has all the parts; yields an object with the text."""
    caught = Caught()
    try:
        yield caught
    except kind as error:
        caught.text = str(error)
        missing = [part for part in parts if str(part) not in caught.text]
        assert not missing, f"{missing} not in {type(error).__name__}: {caught.text!r}"
    else:
        raise AssertionError(f"nothing raised instead of {kind} with {parts}")


class Caught:
    text = ""


# --- aggregators ---


def aggregators_of_rank_0(rank):
    """Two of them, as text; they end with the case."""
    text = [None]
    if rank == 0:
        started = _native.Aggregator("127.0.0.1:0,127.0.0.1:0")
        launched_ranks.later(lambda: started.close(0))
        text = [started.address]
    torch.distributed.broadcast_object_list(text)
    return text[0]
