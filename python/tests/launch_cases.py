"""Cases that try the launcher itself."""

import os
import threading
import unittest

import launch
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
    launch.later(lambda: print("cleaned up"))
    launch.later(lambda: [][1])


def rank_1_dies(rank, size):
    if rank == 1:
        os._exit(5)


def never_runs(rank, size):
    pass


def rank_1_waits(rank, size):
    if rank == 1:
        threading.Event().wait()
