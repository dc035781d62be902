"""Cases on the collectives of one process group, as a track has them."""

import threading

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case

from sluice.torch._collectives import Collectives
from sluice.torch._placement import Place
from sluice.torch._ranks import Ranks

LONG = 300.0  # more than the launcher's limit: nobody learns of anything by the time-out


def made(timeout=kit.TIMEOUT):
    ranks = Ranks(None, Place(tracks=1), timeout, "torch")
    kit.launched_ranks.later(ranks.close)
    return Collectives(ranks, ranks.groups[0], lambda: "a test")


def part(source, target, length):
    return torch.full((length,), 16 * source + target, dtype=torch.uint8)


@case
def parts_of_all_lengths_come_from_every_rank(rank, size):
    """Nothing, one byte, and more than a connection takes at once, in both directions."""
    collectives = made()
    for shift in range(3):
        def length(source, target):
            return (0, 1, 3_000_001)[(source + 2 * target + shift) % 3]

        got = collectives.swap([part(rank, other, length(rank, other)) for other in range(size)])
        for other in range(size):
            kit.check_same({"part": got[other]},
                           {"part": part(other, rank, length(other, rank))}, f"from {other}")
        for other, whole in enumerate(collectives.share(part(rank, rank, length(rank, shift)))):
            kit.check_same({"part": whole}, {"part": part(other, other, length(other, shift))},
                           f"of {other}")


@case
def a_large_swap_expects_everything_before_it_sends(rank, size):
    """Or one direction of a link waits for the other: see _swap_messages."""
    collectives = made()
    inner, calls = collectives._backend, []

    class Watched:
        def recv(self, tensors, other, tag):
            calls.append(("recv", other))
            return inner.recv(tensors, other, tag)

        def send(self, tensors, other, tag):
            calls.append(("send", other))
            return inner.send(tensors, other, tag)

        def __getattr__(self, name):
            return getattr(inner, name)

    collectives._backend = Watched()
    collectives.swap([part(rank, other, 100_000) for other in range(size)])
    large = calls[-2 * (size - 1):]
    assert [kind for kind, _ in large] == ["recv"] * (size - 1) + ["send"] * (size - 1), calls
    others = sorted(set(range(size)) - {rank})
    assert sorted(other for _, other in large[:size - 1]) == others, calls
    assert sorted(other for _, other in large[size - 1:]) == others, calls


@case
def who_waits_is_woken_by_an_interrupt(rank, size):
    """By the process group's time-out it would be woken long after this test's."""
    collectives, ends = made(LONG), []

    def wait():
        try:
            collectives.swap([part(rank, other, 10) for other in range(size)])
        except RuntimeError as error:
            ends.append(str(error))

    if rank == 0:  # All others never come.
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        while not collectives.doing:
            pass
        collectives.interrupt()
        thread.join()
        assert len(ends) == 1, ends
    dist.barrier()
