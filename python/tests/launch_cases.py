"""Cases that try the launcher itself."""

import faulthandler
import os
import signal
import threading
import unittest

import launched_ranks
import torch
import torch.distributed as dist


def ranks_add_up(rank, size):
    total = torch.tensor([rank + 1])
    dist.all_reduce(total)
    return [total.item(), os.environ["RANK"], os.environ["WORLD_SIZE"]]


def rank_1_raises(rank, size):
    if rank == 1:
        raise ValueError("as planned")


def nobody_takes_part(rank, size):
    raise unittest.SkipTest("for a reason")


def cleans_up(rank, size):
    launched_ranks.later(lambda: print("cleaned up"))
    launched_ranks.later(lambda: [][1])


def rank_1_dies(rank, size):
    if rank == 1:
        os._exit(5)


ranks_add_up_again = ranks_add_up_at_last = ranks_add_up


def rank_1_meets_an_illegal_instruction(rank, size):
    if rank == 1:
        faulthandler.disable()  # Or its traceback would be in the log.
        signal.raise_signal(signal.SIGILL)
    ranks_add_up(rank, size)


def all_are_killed(rank, size):
    os.kill(os.getpid(), signal.SIGKILL)


def rank_1_dies_after_it(rank, size):
    if rank == 1:
        launched_ranks._meet = lambda *_: os._exit(5)  # What comes next: the report is written.


def rank_1_waits(rank, size):
    if rank == 1:
        threading.Event().wait()
