"""Cases on carrier stream: gradients through aggregators."""

import ddp_kit as kit
from ddp_kit import case


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
