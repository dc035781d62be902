"""Cases on the life of an attached model: copies, drops, attaching again, a job of one rank."""

import copy
import gc
import io
import logging
import os
import pickle
import threading
import time

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case
from torch.optim.swa_utils import AveragedModel

import sluice.torch
from sluice.torch import SluiceState, hook

WIDE = {"wide": (33, 129)}
LOAD = {"weights_only": False} if kit.WEIGHTS_ONLY else {}


# --- copies ---


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, **LOAD)


COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model)),
          "torch.save": saved_and_loaded, "averaged": lambda model: AveragedModel(model).module}


@case
def copies_of_an_attached_model_are_not_attached(rank, size):
    for name, make in COPIES.items():
        for ddp in (kit.attached(kit.Sheet(WIDE), "tide", min_size=0, feedback="ef")[0], pair()):
            kit.backward(ddp, kit.gradients(rank, 0, WIDE))
            twin = make(ddp)
            whole = {"wide": torch.full(WIDE["wide"], 1.0 + rank)}
            kit.check_same(kit.backward(twin, whole),
                           {"wide": torch.full(WIDE["wide"], (1 + size) / 2)}, f"{name}, the copy")
            got = kit.backward(ddp, kit.gradients(rank, 1, WIDE))["wide"]
            exact = kit.exact_means(size, 1, WIDE)["wide"]
            assert not kit.same_bits(got, exact), f"{name}: the model is not attached any more"
            assert kit.relative_error(got, exact) < 0.1, name


def pair():
    ddp = kit.wrap(kit.Sheet(WIDE))
    state = SluiceState(codec="tide", min_size=0, tracks=2, timeout=kit.TIMEOUT)
    kit.launched_ranks.later(state.close)
    ddp.register_comm_hook(state, hook)
    return ddp


@case
def a_copy_can_be_attached(rank, size):
    ddp, _ = kit.attached(kit.Sheet(WIDE), "tide", min_size=0)
    twin = copy.deepcopy(ddp)
    kit.attach(twin, "f32", min_size=0)
    kit.check_same(kit.backward(twin, kit.gradients(rank, 0, WIDE)),
                   kit.exact_means(size, 0, WIDE), "the copy")


@case
def a_state_that_has_not_started_is_copied_as_it_is(rank, size):
    state = SluiceState(codec="tide:bits=3", tracks=2, exclude=["a*"])
    twin = pickle.loads(pickle.dumps(state))
    assert twin.settings == state.settings and not twin.detached, twin
    assert repr(twin) == repr(state) and "tide:bits=3" in repr(state), repr(twin)


# --- attaching again ---


@case
def attach_after_detach_puts_another_state_behind_the_hook(rank, size):
    ddp, first = kit.attached(kit.Sheet(WIDE), "tide:bits=2", min_size=0, feedback="ef")
    kit.backward(ddp, kit.gradients(rank, 0, WIDE))
    first.detach()
    kit.backward(ddp, kit.gradients(rank, 1, WIDE))
    second = kit.attach(ddp, "f32", min_size=0)
    for step in range(2):
        kit.check_same(kit.backward(ddp, kit.gradients(rank, step, WIDE)),
                       kit.exact_means(size, step, WIDE), "attached again")
    first.detach()  # does nothing
    assert (first.stats()["steps"], second.stats()["steps"]) == (1, 2)
    with kit.fails(sluice.torch.SluiceError, "already", "detach()"):
        kit.attach(ddp)


@case
def a_module_that_is_wrapped_again_is_attached_again(rank, size):
    module = kit.Sheet(WIDE)
    for codec in ("tide", "f32"):
        ddp, handle = kit.attached(module, codec, min_size=0)
        got = kit.backward(ddp, kit.gradients(rank, 0, WIDE))
        assert handle.stats()["steps"] == 1
        module.zero_grad(set_to_none=True)
    kit.check_same(got, kit.exact_means(size, 0, WIDE), "f32")


# --- nothing is left ---


def threads_and_descriptors(most=None):
    """Once our threads that are on their way out are gone, and, as the kernel sees them a little
    longer, once there are no more than that; or after half a minute as they are."""
    until = time.monotonic() + 30
    while True:
        gc.collect()
        now = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        ours = any(thread.name.startswith("sluice-") for thread in threading.enumerate())
        fits = most is None or all(one <= limit for one, limit in zip(now, most))
        if (fits and not ours) or time.monotonic() > until:
            return now
        os.sched_yield()


def dropped(rank, **options):
    ddp = kit.wrap(kit.Sheet(WIDE))
    sluice.torch.attach(ddp, "tide", min_size=0, tracks=3, timeout=kit.TIMEOUT, **options)
    kit.backward(ddp, kit.gradients(rank, 0, WIDE))


@case
def a_model_that_is_dropped_leaves_no_threads_and_descriptors(rank, size):
    for options in ({}, {"carrier": "stream"}):
        dropped(rank, **options)
        before = threads_and_descriptors()
        dist.barrier()
        for _ in range(2):
            dropped(rank, **options)
        after = threads_and_descriptors(before)
        dist.barrier()
        assert all(now <= then for now, then in zip(after, before)), (options, before, after)


@case
def an_attach_that_fails_leaves_nothing(rank, size):
    ddp = kit.wrap(kit.Sheet(WIDE))
    before = threads_and_descriptors()
    for _ in range(2):
        with kit.fails(ValueError, "matches no parameter"):
            kit.attach(ddp, exclude=["no such"])
    after = threads_and_descriptors(before)
    assert all(now <= then for now, then in zip(after, before)), (before, after)


# --- one rank ---


def of_one(rank, size, shapes=None, dtype=torch.float32, **options):
    """(DDP model of this rank alone, handle)."""
    groups = [dist.new_group([r]) for r in range(size)]
    return kit.attached(kit.Sheet(shapes or WIDE, dtype), min_size=0,
                        ddp={"process_group": groups[rank]}, **options)


@case
def one_rank_gets_its_gradients_back_bit_for_bit(rank, size):
    for dtype in (torch.float32, torch.float16, torch.float64):
        for options in ({}, {"feedback": "ef"}, {"carrier": "stream"}):
            ddp, handle = of_one(rank, size, dtype=dtype, codec="tide:bits=2", **options)
            assert not kit.lane_threads()
            for step in range(2):
                given = kit.gradients(rank, step, WIDE, dtype=dtype)
                kit.check_same(kit.backward(ddp, given), given, f"{dtype}, {options}")
            stats = handle.stats()
            assert stats["steps"] == 2 and stats["bytes_sent"] == 0, stats


@case
def one_rank_pays_what_more_ranks_owed(rank, size):
    source, saver = kit.attached(kit.Sheet(WIDE), "tide:bits=2", min_size=0, feedback="ef")
    kit.backward(source, kit.gradients(rank, 0, WIDE))
    states, held = [None] * size, [None] * size
    dist.all_gather_object(states, saver.state_dict())
    dist.all_gather_object(held, kit.contents(saver))
    owed = sum(one["residuals"]["wide"] for one in held).view(WIDE["wide"])
    assert owed.abs().max() > 0.01, "nothing was owed: the case shows nothing"
    ddp, handle = of_one(rank, size, codec="tide:bits=2", feedback="ef")
    handle.load_state_dict(states)
    bad = kit.gradients(rank, 1, WIDE)
    bad["wide"][3, 3] = torch.inf
    kit.backward(ddp, bad)  # a scaler throws it away, so that nothing is paid
    given = kit.gradients(rank, 1, WIDE)
    kit.check_same(kit.backward(ddp, given), {"wide": given["wide"] + owed}, "the first step")
    assert not kit.contents(handle)["residuals"]["wide"].any()
    kit.check_same(kit.backward(ddp, given), given, "the second step")
    assert (handle.stats()["steps"], handle.stats()["skipped_steps"]) == (3, 1), handle.stats()
    handle.load_state_dict(states)  # It is owed once more, although all was known to be paid.
    kit.check_same(kit.backward(ddp, given), {"wide": given["wide"] + owed}, "loaded again")


# --- steps, words ---


class Both(torch.nn.ModuleList):
    """Of two dtypes, and so of two buckets at once."""

    def forward(self, one, other):
        return self[0](one) + self[1](other)


@case
def the_first_step_of_a_static_graph_is_one_although_ddp_does_not_say_so(rank, size):
    for plain_pair in (False, True):
        ddp = kit.wrap(Both([kit.Sheet(WIDE), kit.Sheet(WIDE, torch.float16)]), static_graph=True)
        state = SluiceState(codec="f32", min_size=0, tracks=2, timeout=kit.TIMEOUT)
        if plain_pair:
            kit.launched_ranks.later(state.close)
            ddp.register_comm_hook(state, hook)
        else:
            state = kit.attach(ddp, "f32", min_size=0).state
        for step in range(4):
            half = {name: value.half() for name, value in kit.gradients(rank, step, WIDE).items()}
            got = kit.backward(ddp, kit.gradients(rank, step, WIDE), half)
            kit.check_same({"wide": got["0.wide"]}, kit.exact_means(size, step, WIDE), f"{step}")
            late = int(plain_pair and step == 0)  # known when the next begins
            assert state.step == step + 1 - late, (plain_pair, step, state.step)


@case
def a_codec_is_shown_as_it_was_given(rank, size):
    spec = "tide:bits=4,block=256"
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("sluice").addHandler(handler)
    logging.getLogger("sluice").setLevel(logging.INFO)
    kit.launched_ranks.later(lambda: logging.getLogger("sluice").removeHandler(handler))
    _, handle = kit.attached(kit.Sheet(WIDE), spec)
    assert handle.stats()["codec"] == handle.state.settings.codec == spec
    assert spec in repr(handle) and f"{size} ranks" in repr(handle), repr(handle)
    assert not lines if rank else (spec in lines[0]), lines
