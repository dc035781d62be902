"""Cases on carrier stream: gradients through aggregators."""

import socket

import ddp_kit as kit
import torch
from ddp_kit import case

from sluice.torch import SluiceError


@case
def aggregators_that_are_named_are_used(rank, size):
    shapes = {"wide": (33, 129)}
    named = kit.aggregators_of_rank_0(rank)
    ddp, handle = kit.attached(kit.Sheet(shapes), "f32", min_size=0, aggregators=named.split(","))
    for step in range(3):
        got = kit.backward(ddp, kit.gradients(rank, step, shapes))
        kit.check_same(got, kit.exact_means(size, step, shapes), "f32")
    stats = handle.stats()
    assert stats["bytes_sent"] > 3 * 4 * 33 * 129 and stats["bytes_received"] > 3 * 4 * 33 * 129
    with kit.fails(ValueError, "carrier 'torch'", named.split(",")[0], "accepted"):
        kit.attach(kit.wrap(kit.Sheet(shapes)), carrier="torch", aggregators=named.split(","))


@case
def an_address_where_nobody_listens_is_named_long_before_the_time_out(rank, size):
    """Of the two that are named, one is there."""
    there, gone = kit.aggregators_of_rank_0(rank).split(",")[0], [None]
    if rank == 0:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            gone = [f"127.0.0.1:{udp.getsockname()[1]}"]
    torch.distributed.broadcast_object_list(gone)
    ddp = kit.wrap(kit.Sheet({"wide": (33, 129)}))
    with kit.fails(SluiceError, f"the aggregator at {gone[0]} does not answer",
                   "nothing listens there", "accepted"):
        kit.attach(ddp, timeout=86400, aggregators=[there, gone[0]])
    assert not kit.lane_threads()
