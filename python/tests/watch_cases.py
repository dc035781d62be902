"""Cases on the watch over ranks: who is slow, leaves or is a stranger is not dead."""

import datetime
import logging
import os
import signal
import socket
import threading
from unittest import mock

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case

from sluice.torch import _ranks, _stream
from sluice.torch._state import State

SHAPES = {"wide": (33, 129)}
LIMIT = 60.0  # seconds; nothing here takes long unless it is broken


def check_means(ddp, rank, size, step):
    got = kit.backward(ddp, kit.gradients(rank, step, SHAPES))
    kit.check_same(got, kit.exact_means(size, step, SHAPES), f"step {step}")


def wait_until(is_so):
    """For what has no event: the state of another process, or of a track."""
    pause = threading.Event()
    for _ in range(int(100 * LIMIT)):
        if is_so():
            return
        pause.wait(0.01)
    raise AssertionError("waited in vain")


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def stop_and_go(pid, handle):
    """Stops a process; lets it go on when a track of this one waits for it."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid))

    def go():
        try:
            wait_until(lambda: any("step 2" in track.position for track in handle.state.tracks))
        finally:
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=go)
    thread.start()
    return thread


@case(sizes=(3,))
def a_rank_that_is_stopped_for_a_while_is_not_dead(rank, size):
    pids = [None] * size
    dist.all_gather_object(pids, os.getpid())
    for carrier, stopped in (("torch", 1), ("torch", 0), ("stream", 2), ("stream", 0)):
        ddp, handle = kit.attached(kit.Sheet(SHAPES), "f32", min_size=0, carrier=carrier)
        for step in (0, 1):  # In the second one DDP itself lets the ranks wait for each other.
            check_means(ddp, rank, size, step)
        dist.barrier()
        thread = stop_and_go(pids[stopped], handle) if rank == (stopped + 1) % size else None
        for step in (2, 3):
            check_means(ddp, rank, size, step)
        assert not handle.state.ranks.watch.doom()
        if thread is not None:
            thread.join()
        dist.barrier()
        handle.detach()


@case
def ranks_that_leave_one_after_the_other_are_not_dead(rank, size):
    for carrier in ("torch", "stream"):
        for order in (range(size), reversed(range(size))):
            with mock.patch.object(logging.getLogger("sluice"), "warning") as warned, \
                    mock.patch.object(_stream, "PATIENCE", 0.0):  # Nobody lacks any result.
                ddp, handle = kit.attached(kit.Sheet(SHAPES), "f32", min_size=0, carrier=carrier)
                check_means(ddp, rank, size, 0)
                watch = handle.state.ranks.watch
                for leaver in order:
                    dist.barrier()
                    if rank == leaver:
                        handle.detach()
                dist.barrier()
            assert not warned.called, warned.call_args_list
            assert all(word.kind == "left" for word in watch.words(0, 0)), watch.words(0, 0)


@case(sizes=(3,))
def a_rank_that_goes_on_without_one_that_left_is_told_so(rank, size):
    for carrier in ("torch", "stream"):
        ddp, handle = kit.attached(kit.Sheet(SHAPES), "f32", min_size=0, carrier=carrier)
        for step in (0, 1):
            check_means(ddp, rank, size, step)
        if rank == 1:
            handle.detach()
        else:
            with kit.fails(RuntimeError, "step 2", "missing: rank 1 (left after 2 steps)"):
                check_means(ddp, rank, size, 2)
        dist.barrier()


@case
def a_rank_that_leaves_at_once_does_not_keep_others_from_attaching(rank, size):
    """Rank 0 hears of it before it is done."""
    for carrier in ("torch", "stream"):
        ddp, make, lost = kit.wrap(kit.Sheet(SHAPES)), State._make_tracks, []

        def make_late(state):
            tracks = make(state)
            state.ranks.watch.words(size - 1, LIMIT)
            state.ranks.watch.on_loss(lambda: lost.append(rank))
            return tracks

        with mock.patch.object(State, "_make_tracks", make_late if rank == 0 else make), \
                mock.patch.object(_stream, "PATIENCE", 0.0):
            kit.attach(ddp, "f32", carrier=carrier).detach()
        assert not lost
        dist.barrier()


@case
def strangers_at_rank_0s_port_do_no_harm(rank, size):
    """While the ranks attach, which is when it is open."""
    strangers, knock = [], _ranks.knock

    def come_with_others(facts, *rest):
        for data in (b"", b"GET / HTTP/1.0\r\n\r\n", b"rank 1\n", b"\xff" * 10**5,
                     facts["token"].encode() + b" rank 1000000\n"):
            strangers.append(socket.create_connection(("127.0.0.1", facts["port"])))
            strangers[-1].sendall(data)
        return knock(facts, *rest)

    for carrier in ("torch", "stream"):
        with mock.patch.object(_ranks, "knock", come_with_others):
            ddp, handle = kit.attached(kit.Sheet(SHAPES), "f32", min_size=0, carrier=carrier)
        for step in range(2):
            check_means(ddp, rank, size, step)
        dist.barrier()
        handle.detach()
    for stranger in strangers:
        stranger.close()


@case
def the_timeout_is_nine_tenths_of_the_process_groups(rank, size):
    def timeout_of(group, **options):
        ddp = kit.wrap(kit.Sheet(SHAPES), process_group=group)
        return kit.attach(ddp, "f32", **options).state.ranks.timeout

    world = datetime.timedelta(seconds=kit.launched_ranks.TIMEOUT)
    assert timeout_of(None, timeout="auto") == 0.9 * world.total_seconds()
    own = dist.new_group(timeout=datetime.timedelta(seconds=200))
    assert timeout_of(own, timeout="auto") == 180.0
    assert timeout_of(own, timeout=33) == 33.0
    years = dist.new_group(timeout=datetime.timedelta(days=1000))
    assert timeout_of(years, timeout="auto") == 86400.0
    with mock.patch.dict(os.environ, SLUICE_TIMEOUT="44"):
        assert timeout_of(own, timeout=None) == 44.0
    if torch.__version__ >= "2":  # Else the group has its options itself.
        with mock.patch.object(type(own), "_get_backend", side_effect=RuntimeError):
            assert _ranks.own_timeout(own) == 0.9 * 1800
