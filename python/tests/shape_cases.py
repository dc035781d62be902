"""Cases on strange parameters: complex, of odd strides, empty, tied, of several dtypes at once."""

import warnings

import ddp_kit as kit
import torch
from ddp_kit import case
from torch import nn

from sluice.torch import SluiceError

COMPLEX = (2, 0, "complex parameters in Gloo, which DDP needs to start")


class Spectral(nn.Module):
    """As in a Fourier neural operator: complex weights of the lowest modes, and plain ones."""

    def __init__(self, channels=24, modes=12):
        super().__init__()
        self.modes = modes
        self.lift = nn.Conv1d(1, channels, 1)
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, dtype=torch.cfloat))
        self.rotated = nn.Parameter(torch.randn(modes, channels, dtype=torch.cfloat).t())
        self.phase = nn.Parameter(torch.randn(channels, dtype=torch.cfloat))
        self.gain = nn.Parameter(torch.tensor(1.0 + 0.5j))
        self.nothing = nn.Parameter(torch.zeros(0, 5, dtype=torch.cfloat))
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, inputs):
        lifted = self.lift(inputs)
        modes = torch.fft.rfft(lifted)[:, :, :self.modes] * self.rotated
        mixed = torch.einsum("bix,iox->box", modes, self.weight) * self.phase[:, None] * self.gain
        back = torch.fft.irfft(mixed, n=inputs.shape[-1])
        return (back + self.skip(lifted)).square().mean() + self.nothing.abs().sum()

    @staticmethod
    def batch(rank, step):
        generator = torch.Generator().manual_seed(1 + rank + 100 * step)
        return torch.randn(4, 1, 64, generator=generator)


class Strides(nn.Module):
    """Transposed, channels last, with holes, without dimensions."""

    def __init__(self):
        super().__init__()
        last = torch.randn(24, 16, 3, 3).contiguous(memory_format=torch.channels_last)
        self.last = nn.Parameter(last)
        self.transposed = nn.Parameter(torch.randn(70, 64).t())
        self.holes = nn.Parameter(torch.randn(64, 128)[:, ::2])
        self.scalar = nn.Parameter(torch.tensor(2.0))

    def forward(self, inputs):
        seen = nn.functional.conv2d(inputs, self.last).mean(3).mean(0)
        return ((self.transposed.sum(1) * inputs.mean()).square().sum() + seen.square().sum()
                + (self.holes @ inputs.reshape(-1)[:64]).square().mean()) * self.scalar

    @staticmethod
    def batch(rank, step):
        generator = torch.Generator().manual_seed(1 + rank + 100 * step)
        return torch.randn(2, 16, 8, 8, generator=generator)


class Mixed(nn.Module):
    """A bucket for each dtype; a tied matrix, a frozen one, and a sparse table."""

    def __init__(self, dtypes):
        super().__init__()
        self.table = nn.Embedding(300, 32)
        self.rare = nn.Embedding(300, 32, sparse=True)
        self.head = nn.Linear(32, 300, bias=False)
        self.head.weight = self.table.weight
        self.frozen = nn.Linear(32, 32).requires_grad_(False)
        self.middle = nn.ParameterList([nn.Parameter(torch.randn(32, 32).to(d)) for d in dtypes])

    def forward(self, tokens):
        inner = self.frozen(self.table(tokens) + self.rare(tokens))
        for matrix in self.middle:
            whole = matrix if matrix.is_complex() else matrix.double()
            inner = inner.to(whole.dtype) @ whole / 6
        inner = inner.real.float() if inner.is_complex() else inner.float()
        return nn.functional.cross_entropy(self.head(inner).flatten(0, 1), tokens.flatten())

    @staticmethod
    def batch(rank, step):
        generator = torch.Generator().manual_seed(1 + rank + 100 * step)
        return torch.randint(0, 300, (2, 9), generator=generator)


def gradients_alone(model, inputs):
    """Of one rank, without DDP."""
    model.zero_grad(set_to_none=True)
    model(inputs).backward()
    return {name: p.grad.to_dense() for name, p in model.named_parameters() if p.grad is not None}


def as_floats(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def check_means(make, rank, size, limit, codec="f32", steps=3, **options):
    """Every slice of every gradient is the mean of what the ranks have without DDP."""
    torch.manual_seed(5)
    alone = make()
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dtypes that are not compressed
        ddp, handle = kit.attached(make(), codec, min_size=0, check_every=1, **options)
        for step in range(steps):
            every = [gradients_alone(alone, alone.batch(r, step)) for r in range(size)]
            ddp.zero_grad(set_to_none=True)
            ddp(alone.batch(rank, step)).backward()
            for name, parameter in ddp.module.named_parameters():
                if not parameter.requires_grad:
                    continue
                got = as_floats(parameter.grad.to_dense()).double()
                wanted = sum(as_floats(one[name]).double() for one in every) / size
                close = got.numel() == 0 or kit.relative_error(got, wanted) <= limit
                assert close, (name, step, options, kit.relative_error(got, wanted))
    assert handle.stats()["checks"] == steps, (options, handle.stats())
    return handle


def layouts():
    for view in (False, True):
        for more in ({}, {"bucket_cap_mb": 0.02}, {"static_graph": True},
                     {"find_unused_parameters": True}):
            yield {"gradient_as_bucket_view": view, **more}


@case
def complex_parameters_are_averaged_whole(rank, size):
    kit.needs_torch(*COMPLEX)
    for ddp in layouts():
        check_means(Spectral, rank, size, 1e-12, ddp=ddp)
    check_means(Spectral, rank, size, 1e-12, carrier="stream")
    check_means(Spectral, rank, size, 0.02, codec="tide:bits=6", wave=4096)


@case
def residuals_of_complex_parameters_have_two_floats_an_element(rank, size):
    kit.needs_torch(*COMPLEX)
    handle = check_means(Spectral, rank, size, 0.2, codec="tide:bits=4", feedback="ef")
    residuals = kit.contents(handle)["residuals"]
    assert residuals["weight"].numel() == 2 * 24 * 24 * 12, residuals["weight"].shape
    assert residuals["rotated"].numel() == 2 * 24 * 12, residuals["rotated"].shape
    assert "phase" not in residuals and "nothing" not in residuals, residuals.keys()
    handle.load_state_dict(handle.state_dict())


@case
def min_size_counts_a_complex_element_as_two(rank, size):
    kit.needs_torch(*COMPLEX)
    model = nn.Linear(10, 10, bias=False, dtype=torch.cfloat)
    for least, names in ((200, ["weight"]), (201, [])):
        _, handle = kit.attached(model, "tide", min_size=least)
        assert list(handle.state.tensors.compressed) == names, least
        handle.detach()


@case
def odd_strides_keep_their_places(rank, size):
    for ddp in layouts():
        check_means(Strides, rank, size, 1e-12, ddp=ddp)


@case
def dtypes_tied_frozen_and_sparse_in_one_model(rank, size):
    dtypes = [torch.float32, torch.float16, torch.float64]
    if kit.TORCH >= (2, 0):
        dtypes = [torch.float32, torch.bfloat16, torch.float64, torch.complex64, torch.complex128]
    for view in (False, True):
        check_means(lambda: Mixed(dtypes), rank, size, 1e-4,
                    ddp={"gradient_as_bucket_view": view})


@case
def complex_as_torch_1_hands_it_over(rank, size):
    """As a complex buffer, here of a bucket that is made up."""
    handle = kit.attached(kit.Sheet({"wide": (33, 129)}), "f32", min_size=0)[1]
    shape = (40, 30)
    parameter = nn.Parameter(torch.zeros(shape, dtype=torch.cfloat))
    handle.state.tensors.add([("odd", parameter)], ())
    every = [torch.view_as_complex(kit.gradient(r, 0, (1200, 2))) for r in range(size)]
    got = handle.state.submit(Bucket(every[rank].clone(), [parameter])).wait()
    assert got.dtype == torch.cfloat and got.shape == (1200,), got
    kit.check_same({"odd": torch.view_as_real(got)}, {"odd": kit.mean_in_order_of_rank(
        [torch.view_as_real(one) for one in every])}, "as complex")


class Bucket:
    """The last bucket of a step, as DDP would hand it over."""

    def __init__(self, buffer, parameters):
        self.buffer, self.parameters = lambda: buffer, lambda: parameters

    def index(self):
        return 0

    def is_last(self):
        return True


@case
def slices_that_do_not_cover_the_buffer_are_refused(rank, size):
    ddp, handle = kit.attached(kit.Sheet({"wide": (33, 129)}), "f32", min_size=0)
    parameter = ddp.module.wide
    for buffer in (torch.zeros(33 * 129 + 1), torch.zeros(33 * 129 - 1), torch.zeros(2 * 33 * 129),
                   torch.zeros(2 * 33 * 129)[::2]):
        with kit.fails(SluiceError, "step 0, bucket 0", str(tuple(buffer.shape)), "4257",
                       "wide (33, 129) of torch.float32", "accepted"):
            handle.state.submit(Bucket(buffer, [parameter]))
    torch.distributed.barrier()  # A rank that has left would be the first thing that others find.


@case
def what_is_compared_is_all_that_ddp_gets(rank, size):
    """Wherever a bit differs, also in what is not compressed."""
    shapes = {"wide": (33, 129), "flat": (17,)}
    for dtype in (torch.float32, torch.float16, torch.float64):
        for at in (0, 16, -1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ddp, handle = kit.attached(kit.Sheet(shapes, dtype), "tide", min_size=0,
                                           check_every=1)
                damage(handle.state, at if rank == 0 else None)
                with kit.fails(Exception, "ranks disagree", "the mean of step 0"):
                    kit.backward(ddp, kit.gradients(rank, 0, shapes, dtype=dtype))
            handle.detach()


def damage(state, at):
    """One bit of what the first bucket returns, on its way to DDP."""
    make = state._make_work

    def made(*arguments):
        work = make(*arguments)
        digest = work.digest

        def damaged(track):
            if at is not None:
                work.result.view(torch.uint8)[at] ^= 1
            return digest(track)

        work.digest = damaged
        return work

    state._make_work = made
