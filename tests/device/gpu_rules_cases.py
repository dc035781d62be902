"""What a training loop on a GPU relies on: streams, scalers, other collectives, DDP's features."""

import unittest
from unittest import mock

import ddp_kit as kit
import gpu_kit
import torch
import torch.distributed as dist
from ddp_kit import case

from sluice.torch import SluiceError
from sluice.torch._work import DeviceWork

CYCLES = 200_000_000  # of the device: about a tenth of a second
ALL_WAYS = ("host", *gpu_kit.WAYS)


def ends_alike(rank, run, ways=ALL_WAYS):
    """Runs it in all ways to the same end."""
    gpu_kit.prepare(rank)
    ends = {way: run(way) for way in ways}
    assert all(end == ends[ways[0]] for end in ends.values()), ends


@case(sizes=(2,))
def the_network_trains_to_the_bits_of_host_codecs(rank, size):
    def run(way):
        ddp, handle = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 0.05}, **gpu_kit.EF)
        gpu_kit.train(ddp, rank, 6)
        return gpu_kit.bits(ddp), gpu_kit.residuals(handle)
    ends_alike(rank, run)


@case(sizes=(2,))
def means_that_are_written_late_are_waited_for(rank, size):
    """On the track's stream; the backward pass and the optimiser run on another."""
    def late(work, memory):
        means = work.buffer.clone()
        work.buffer.zero_()
        torch.cuda._sleep(CYCLES)
        work.buffer.copy_(means)
        return False

    def run(way):
        ddp, _ = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 0.05}, **gpu_kit.EF)
        with mock.patch.object(DeviceWork, "repack", late):
            gpu_kit.train(ddp, rank, 3)
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


@case(sizes=(2,))
def gradients_that_are_computed_late_are_waited_for(rank, size):
    """The hook returns before they are there."""
    def run(way):
        ddp, _ = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 0.05}, **gpu_kit.EF)

        def delay(gradient):
            torch.cuda._sleep(CYCLES // 4)
            return gradient * 1

        for parameter in ddp.module.parameters():
            parameter.register_hook(delay)
        gpu_kit.train(ddp, rank, 3)
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


@case(sizes=(2,))
def a_scaler_skips_steps_with_infinity(rank, size):
    def run(way):
        ddp, handle = gpu_kit.attached(way, kit.net(), **gpu_kit.EF)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, growth_interval=1000)
        kept = []
        for step in range(4):
            inputs, wanted = (one.cuda() for one in kit.batch(rank, step))
            if step == 2 and rank == 0:
                inputs[0, 0] = torch.inf
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(ddp(inputs).float(), wanted)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            kept.append(gpu_kit.residuals(handle))
        assert kept[1] == kept[2] != kept[3], kept
        assert (scaler.get_scale(), handle.stats()["skipped_steps"]) == (512.0, 1)
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


@case(sizes=(2,))
def ddps_features_are_as_with_host_codecs(rank, size):
    for features in ({"gradient_as_bucket_view": True}, {"static_graph": True},
                     {"find_unused_parameters": True}):
        def run(way, features=features):
            ddp, _ = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 0.05, **features},
                                      **gpu_kit.EF)
            gpu_kit.train(ddp, rank, 4)
            return gpu_kit.bits(ddp)
        ends_alike(rank, run)


@case(sizes=(2,))
def no_sync_accumulates(rank, size):
    def run(way):
        ddp, _ = gpu_kit.attached(way, kit.net(), **gpu_kit.EF)
        for step in range(3):
            inputs, _ = kit.batch(rank, step)
            with ddp.no_sync():
                ddp(inputs.cuda()).sum().backward()
            ddp(inputs.cuda() + 1).sum().backward()
        return gpu_kit.bits({name: p.grad for name, p in ddp.named_parameters()})
    ends_alike(rank, run)


def train_halves(ddp, rank, steps):
    """A model of bfloat16."""
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(steps):
        inputs, wanted = (one.cuda().bfloat16() for one in kit.batch(rank, step))
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(ddp(inputs), wanted).backward()
        optimizer.step()


@case(sizes=(2,))
def models_of_half_precision_train(rank, size):
    def run(way):
        ddp, handle = gpu_kit.attached(way, kit.net().bfloat16(), **gpu_kit.EF)
        train_halves(ddp, rank, 4)
        return gpu_kit.bits(ddp), gpu_kit.residuals(handle)
    ends_alike(rank, run)


@case(sizes=(2,))
def sync_batch_norm_beside(rank, size):
    """Its collectives run on DDP's communicator, ours on another, at the same time."""
    def run(way):
        net = kit.net()
        net.insert(1, torch.nn.BatchNorm1d(96))
        net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net, gpu_kit.nccl_group())
        ddp, _ = gpu_kit.attached(way, net, {"bucket_cap_mb": 0.05}, **gpu_kit.EF)
        gpu_kit.train(ddp, rank, 6)
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


@case(sizes=(2,))
def collectives_of_the_user_in_the_backward_pass(rank, size):
    def run(way):
        ddp, _ = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 0.05}, **gpu_kit.EF)

        def sums(gradient):
            total = gradient.abs().sum().reshape(1)
            dist.all_reduce(total, group=gpu_kit.nccl_group())
            return gradient / (1 + total)

        for parameter in ddp.module.parameters():
            parameter.register_hook(sums)
        gpu_kit.train(ddp, rank, 6)
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


@case(sizes=(2,))
def two_models_take_turns(rank, size):
    def run(way):
        models = [gpu_kit.attached(way, kit.net(seed), **gpu_kit.EF)[0] for seed in (1, 2)]
        for step in range(4):
            for ddp in models:
                gpu_kit.train(ddp, rank, 1, first=step)
        return [gpu_kit.bits(ddp) for ddp in models]
    ends_alike(rank, run)


@case(sizes=(2,))
def compiled_models_train(rank, size):
    try:
        torch.compile(torch.nn.Linear(4, 4).cuda())(torch.ones(4, 4, device="cuda"))
    except Exception as error:
        raise unittest.SkipTest(f"torch.compile does not work here: {error}") from None

    def run(way):
        ddp, handle = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 25}, **gpu_kit.EF)
        gpu_kit.train(torch.compile(ddp), rank, 4)
        assert handle.stats()["steps"] == 4
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


class Mixed(torch.nn.Module):
    """Sparse rows, float64 and ordinary parameters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(50, 8, sparse=True)
        self.exact = torch.nn.Linear(8, 8, dtype=torch.float64)
        self.plain = torch.nn.Linear(8, 600)

    def forward(self, rows):
        found = self.table(rows)
        return self.exact(found.double()).sum() + self.plain(found).sum()


@case(sizes=(2,))
def other_gradients_come_between(rank, size):
    def run(way):
        ddp, handle = gpu_kit.attached(way, Mixed(), **gpu_kit.EF)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            ddp(torch.arange(rank, 9 + step).cuda()).backward()
            optimizer.step()
        assert handle.stats()["sparse_buckets"] == handle.stats()["exact_buckets"] == 4
        return gpu_kit.bits(ddp)
    ends_alike(rank, run)


@case(sizes=(2,))
def a_captured_backward_pass_is_refused(rank, size):
    gpu_kit.prepare(rank)
    for way in gpu_kit.WAYS:
        ddp, handle = gpu_kit.attached(way, kit.net(), **gpu_kit.EF)
        gpu_kit.train(ddp, rank, 2)
        with mock.patch.object(torch.cuda, "is_current_stream_capturing", return_value=True):
            with kit.fails((SluiceError, RuntimeError), "capture of a CUDA graph", "accepted"):
                gpu_kit.train(ddp, rank, 1)
        assert handle.state.steps.error is None


@case(sizes=(2,))
def a_backward_pass_in_a_graph_is_refused(rank, size):
    """In a real capture, as PyTorch's guide has it: the model is made, and warmed up, on the stream
    that is captured."""
    gpu_kit.prepare(rank)
    inputs, wanted = (one.cuda() for one in kit.batch(rank, 0))
    for way in gpu_kit.WAYS:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            ddp, handle = gpu_kit.attached(way, kit.net(), **gpu_kit.EF)
            gpu_kit.train(ddp, rank, 11)  # Before, DDP measures times, which a capture forbids.
            ddp.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        said = ""
        try:
            with torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream,
                                  capture_error_mode="thread_local"):
                try:
                    torch.nn.functional.mse_loss(ddp(inputs), wanted).backward()
                except RuntimeError as error:
                    said = str(error)
        except RuntimeError:  # A capture that was given up cannot be ended well.
            pass
        assert "capture of a CUDA graph" in said and "accepted" in said, said or "nothing is raised"
        torch.cuda.synchronize()
        assert handle.state.steps.error is None


@case(sizes=(2,))
def what_has_no_kernels_goes_through_the_host(rank, size):
    gpu_kit.prepare(rank)
    ddp, handle = kit.attached(kit.net().cuda(), "thc")
    assert not handle.state.place.on_device
    gpu_kit.train(ddp, rank, 2)
    with kit.fails(ValueError, "backend 'nccl'", "'thc'", "accepted"):
        kit.attached(kit.net().cuda(), "thc", backend="nccl")
    return gpu_kit.bits(ddp)


@case(sizes=(2,))
def memory_is_taken_at_the_start(rank, size):
    """Waves are full: a chunk is one, and no wave can have more than 8 bits."""
    gpu_kit.prepare(rank)
    full = {"feedback": "ef", "min_size": 0, "wave": 1 << 14}
    for way in gpu_kit.WAYS:
        for codec in ("tide:bits=8", "tide:bits=8,scales=previous"):
            ddp, handle = gpu_kit.attached(way, kit.net().bfloat16(), codec=codec, **full)
            train_halves(ddp, rank, 3)
            counts = handle.stats()["device"]
            assert counts["waves"] > 0 and counts["grown"] == 0, (way, codec, counts)
