"""A rank is killed or stopped in the middle of a step: the others say which, soon, and end."""

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
KILLED, STOPPED = "died of signal 9", "was killed by the launcher,"
_NAMED = ("SluiceError", f"step {STEP}", "bucket")
# Victim, how it ends, what the others say, and within how many seconds.
PLAN = {
    "killed_over_nccl": (VICTIM, KILLED, _NAMED, LONG / 2),
    "rank_0_killed_over_nccl": (0, KILLED, _NAMED, LONG / 2),
    "killed_over_gloo": (VICTIM, KILLED, _NAMED, LONG / 2),
    "stopped_over_nccl": (VICTIM, STOPPED, (*_NAMED, "the time-out is 8 s"), 3 * TIMEOUT + 12),
    "stopped_over_gloo": (VICTIM, STOPPED, (*_NAMED, "the time-out is 8 s"), 3 * TIMEOUT + 12),
}


def run(rank, way, victim, end, timeout):
    """Trains until something is raised; what that is, and how long after the fault it came."""
    gpu_kit.prepare(rank)
    ddp, handle = gpu_kit.attached(way, kit.net(), {"bucket_cap_mb": 0.02}, **{
        **gpu_kit.EF, "check_every": 0, "timeout": timeout})
    gpu_kit.train(ddp, rank, STEP)
    state, submit = handle.state, handle.state.submit

    def watched(bucket):
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
        check_nothing_is_written(ddp, handle)
        return [text, took]
    return ["nothing was raised", 0.0]


def check_nothing_is_written(ddp, handle):
    """Once it has failed: threads end, and gradients and residuals stay as they are."""
    until = time.monotonic() + 15
    while kit.lane_threads() and time.monotonic() < until:
        threading.Event().wait(0.1)
    assert not kit.lane_threads(), kit.lane_threads()
    torch.cuda.synchronize()

    def seen():
        return (gpu_kit.bits({name: p.grad for name, p in ddp.named_parameters()
                              if p.grad is not None}), gpu_kit.residuals(handle))

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
