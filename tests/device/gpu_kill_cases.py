"""A rank is killed or stopped in the middle of a step: the others say which, soon, and end."""

import datetime
import os
import signal
import threading
import time

import ddp_kit as kit
import gpu_kit
import torch
from fault_cases import said

SIZE = 3
VICTIM = 1
STEP = 3
TIMEOUT = 8.0
LONG = 60.0
GROUPS_TIMEOUT = 20.0
KILLED, STOPPED = "died of signal 9", "was killed by the launcher,"
_NAMED = ("SluiceError", f"step {STEP}", "bucket")
# Victim, how it ends, what the others say, and within how many seconds.
PLAN = {
    "killed_over_nccl": (VICTIM, KILLED, _NAMED, LONG / 2),
    "rank_0_killed_over_nccl": (0, KILLED, _NAMED, LONG / 2),
    "killed_over_gloo": (VICTIM, KILLED, _NAMED, LONG / 2),
    "stopped_over_nccl": (VICTIM, STOPPED, (*_NAMED, "the time-out is 8 s"), 3 * TIMEOUT + 12),
    "stopped_over_gloo": (VICTIM, STOPPED, (*_NAMED, "the time-out is 8 s"), 3 * TIMEOUT + 12),
    "killed_beside_sync_batch_norm": (VICTIM, KILLED, _NAMED, LONG / 2),
    "stopped_with_the_time_out_of_the_group": (VICTIM, STOPPED, (*_NAMED, "the time-out is 18 s"),
                                               GROUPS_TIMEOUT + 15),
}


def run(rank, way, victim, end, timeout, net=None, after=lambda: None):
    """Trains until something is raised; what that is, and how long after the fault it came."""
    gpu_kit.prepare(rank)
    ddp, handle = gpu_kit.attached(way, net or kit.net(), {"bucket_cap_mb": 0.02}, **{
        **gpu_kit.EF, "check_every": 0, "timeout": timeout})
    gpu_kit.train(ddp, rank, STEP)
    state, submit, given = handle.state, handle.state.submit, Given(ddp, handle)

    def watched(bucket):
        if state.step == STEP:
            given.keep(bucket)
        if rank == victim and state.step == STEP and bucket.index() == 1:
            os.kill(os.getpid(), end)
        return submit(bucket)

    state.submit = watched
    began = time.monotonic()
    try:
        gpu_kit.train(ddp, rank, 3, first=STEP)
    except Exception as error:
        text = said(error)[1]
        took = time.monotonic() - began
        after()
        check_nothing_is_written(ddp, handle, given)
        return [text, took]
    return ["nothing was raised", 0.0]


class Given:
    """What gradients and residuals were before the fault, of buckets that the victim never gave:
    their means cannot be there."""

    def __init__(self, ddp, handle):
        self._handle = handle
        self._names = {id(p): name for name, p in ddp.module.named_parameters()}
        self._residuals = kit.contents(handle)["residuals"]
        self._buckets, self._lacking = [], []

    def keep(self, bucket):
        """When the hook gets it."""
        if bucket.index() > 0:
            self._buckets.append((bucket.buffer(), bucket.buffer().clone()))
            self._lacking += [self._names[id(p)] for p in bucket.parameters()]

    def check(self):
        assert self._buckets, "no bucket came after the fault"
        for number, (now, before) in enumerate(self._buckets):
            assert torch.equal(now.view(torch.uint8), before.view(torch.uint8)), \
                f"gradients of bucket {number + 1} were written"
        residuals = kit.contents(self._handle)["residuals"]
        names = [name for name in self._lacking if name in self._residuals]
        assert names, (self._lacking, list(self._residuals))
        for name in names:
            assert kit.same_bits(residuals[name], self._residuals[name]), \
                f"the residual of {name} was written"


def check_nothing_is_written(ddp, handle, given):
    """Once it has failed: threads end, and gradients and residuals stay as they were before."""
    until = time.monotonic() + 15
    while kit.lane_threads() and time.monotonic() < until:
        threading.Event().wait(0.1)
    assert not kit.lane_threads(), kit.lane_threads()
    torch.cuda.synchronize()

    def seen():
        return (gpu_kit.bits({name: p.grad for name, p in ddp.named_parameters()
                              if p.grad is not None}), gpu_kit.residuals(handle))

    given.check()
    before = seen()
    threading.Event().wait(0.5)
    assert seen() == before, "something was written after the failure"


def killed_over_nccl(rank, size):
    return run(rank, "nccl", VICTIM, signal.SIGKILL, LONG)


def rank_0_killed_over_nccl(rank, size):
    return run(rank, "nccl", 0, signal.SIGKILL, LONG)


def killed_over_gloo(rank, size):
    return run(rank, "gloo", VICTIM, signal.SIGKILL, LONG)


def stopped_over_nccl(rank, size):
    return run(rank, "nccl", VICTIM, signal.SIGSTOP, TIMEOUT)


def stopped_over_gloo(rank, size):
    return run(rank, "gloo", VICTIM, signal.SIGSTOP, TIMEOUT)


def killed_beside_sync_batch_norm(rank, size):
    """Its collective hangs in the same backward pass, before gradients that a wave waits for."""
    gpu_kit.prepare(rank)
    gpu_kit.leave_errors_to_us()
    net = kit.net()
    net.insert(1, torch.nn.BatchNorm1d(96))
    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net, gpu_kit.nccl_group())
    return run(rank, "nccl", VICTIM, signal.SIGKILL, LONG, net, gpu_kit.abort_nccl_group)


def stopped_with_the_time_out_of_the_group(rank, size):
    """Without a time-out of ours, that of DDP's group says how long ranks wait."""
    gpu_kit.prepare(rank)
    gpu_kit.nccl_group(timeout=datetime.timedelta(seconds=GROUPS_TIMEOUT))
    return run(rank, "nccl", VICTIM, signal.SIGSTOP, "auto")
