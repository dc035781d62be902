"""Ranks that share a GPU give the bits of ranks on the CPU."""

import ddp_kit as kit
import gpu_kit
import torch
from ddp_kit import case

SIZES = (2, 4)
PLAN = {  # codec, options: what is compared
    "f32": {"codec": "f32"},
    "bf16": {"codec": "bf16"},
    "fp16": {"codec": "fp16"},
    "tide 4": {"codec": "tide:bits=4"},
    "tide 2": {"codec": "tide:bits=2"},
    "tide 4 with feedback": {"codec": "tide:bits=4", "feedback": "ef"},
    "scales of the step before": {"codec": "tide:bits=4,scales=previous", "feedback": "ef"},
    "mixed": {"codec": {"a": "bf16", "d": "f32", "*": "tide:bits=3"}, "min_size": 4096},
    "small waves": {"codec": "tide:bits=4", "feedback": "ef", "wave": 1 << 16},
    "start_step": {"codec": "tide:bits=4", "feedback": "ef", "start_step": 2},
}


def run(way, rank, options, dtype=torch.float32, steps=4, spoil=None):
    """Digests of the means of every step, and of the residuals at the end."""
    ddp, handle = gpu_kit.attached(way, kit.Sheet(gpu_kit.SHAPES, dtype),
                                   **{"min_size": 0, "check_every": 2, **options})
    means = []
    for step in range(steps):
        given = kit.gradients(rank, step, gpu_kit.SHAPES, dtype=dtype)
        if spoil is not None:
            spoil(step, given)
        means.append(gpu_kit.bits(kit.backward(ddp, gpu_kit.to(way, given))))
    stats = handle.stats()
    seen = means, gpu_kit.residuals(handle), stats["skipped_steps"], stats["codecs"]
    assert (stats["device"]["launches"] > 0) == (way != "cpu"), stats["device"]
    handle.detach()
    return seen


def like_the_cpu(rank, size, options, **more):
    gpu_kit.prepare(rank)
    wanted = run("cpu", rank, options, **more)
    for way in gpu_kit.WAYS:
        got = run(way, rank, options, **more)
        assert got == wanted, f"{way}, {options}: {got} instead of {wanted}"


@case(sizes=SIZES)
def float32(rank, size):
    for options in PLAN.values():
        like_the_cpu(rank, size, options)


@case(sizes=SIZES)
def half_precision(rank, size):
    for dtype in (torch.bfloat16, torch.float16):
        for name in ("f32", "tide 4", "tide 4 with feedback"):
            like_the_cpu(rank, size, PLAN[name], dtype=dtype)
        like_the_cpu(rank, size, {"codec": "f32", "feedback": "ef"}, dtype=dtype)


@case(sizes=SIZES)
def infinity_in_one_step(rank, size):
    def spoil(step, given):
        if step == 1 and rank == size - 1:
            given["d"][3, 4] = torch.inf
            given["c"][7] = torch.nan
    for name in ("tide 4 with feedback", "scales of the step before", "f32"):
        like_the_cpu(rank, size, PLAN[name], spoil=spoil)


@case(sizes=SIZES)
def zeros_and_tiny_numbers(rank, size):
    def spoil(step, given):
        given["a"].zero_()
        given["b"].mul_(1e-42)
        given["d"][:500].zero_()
    for name in ("tide 4", "tide 4 with feedback", "bf16"):
        like_the_cpu(rank, size, PLAN[name], spoil=spoil)
