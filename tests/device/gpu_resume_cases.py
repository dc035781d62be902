"""Checkpoints go from the CPU to the GPU and back."""

import ddp_kit as kit
import gpu_kit
from ddp_kit import case


def go_on(way, rank, saved, first, steps, **options):
    """Steps from a saved state on: digests of their means, and the state."""
    ddp, handle = gpu_kit.attached(way, kit.Sheet(gpu_kit.SHAPES), **{**gpu_kit.EF, **options})
    if saved is not None:
        handle.load_state_dict(saved)
    means = [gpu_kit.bits(kit.backward(ddp, gpu_kit.to(way, kit.gradients(
        rank, step, gpu_kit.SHAPES)))) for step in range(first, first + steps)]
    saved = handle.state_dict()
    handle.detach()
    return means, saved


@case(sizes=(2,))
def steps_in_several_places_are_those_in_one(rank, size):
    gpu_kit.prepare(rank)
    for options in ({}, {"codec": "tide:bits=4,scales=previous"}, {"codec": "f32"}):
        wanted, end = go_on("cpu", rank, None, 0, 10, **options)
        got, saved = [], None
        for number, way in enumerate(("cpu", "nccl", "cpu", "gloo", "cpu")):
            means, saved = go_on(way, rank, saved, 2 * number, 2, **options)
            got += means
        assert got == wanted, f"{options}: {got} instead of {wanted}"
        assert kit.same_bits(saved["memory"], end["memory"]), options


@case(sizes=(2,))
def the_other_way_round(rank, size):
    gpu_kit.prepare(rank)
    wanted, _ = go_on("cpu", rank, None, 0, 6)
    got, saved = [], None
    for number, way in enumerate(("nccl", "cpu", "gloo")):
        means, saved = go_on(way, rank, saved, 2 * number, 2)
        got += means
    assert got == wanted, f"{got} instead of {wanted}"
