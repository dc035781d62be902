"""Cases on DDP's own features: buckets, accumulation, unused parameters, uneven inputs, AMP, …"""

import contextlib
import ctypes
import datetime
import os
import unittest

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case
from torch.utils.data import DataLoader, Dataset

import sluice.torch
from sluice.torch import SluiceError, _time_slices, hook

TIDE = {"codec": "tide:bits=3", "feedback": "ef", "min_size": 0, "check_every": 2}
WIDE = {"wide": (33, 129)}
PAIR = {"one": (64, 64), "two": (64, 64)}


def trained(rank, steps, model=None, ddp=None, **options):
    """The bits of the network after so many steps; the handle."""
    wrapped, handle = kit.attached(model or kit.net(), ddp=ddp, **{**TIDE, **options})
    kit.train(wrapped, rank, steps)
    return kit.bits(wrapped), handle


# --- buckets ---


@case
def the_layout_of_buckets_lanes_and_waves_changes_nothing(rank, size):
    tiny = {"bucket_cap_mb": 0.01}
    layouts = {
        "as it comes": {},
        "tiny buckets": {"ddp": tiny},
        "buckets as views": {"ddp": {"gradient_as_bucket_view": True}},
        "tiny buckets as views": {"ddp": {"gradient_as_bucket_view": True, **tiny}},
        "one track": {"tracks": 1, "ddp": tiny},
        "four tracks": {"tracks": 4, "ddp": tiny},
        "small waves": {"wave": 4096},
        "small waves, four tracks": {"wave": 4096, "tracks": 4, "ddp": tiny},
        "aggregators on all ranks": {"carrier": "stream", "ddp": tiny},
        "aggregators, one track, small waves": {"carrier": "stream", "tracks": 1, "wave": 4096},
    }
    ends, buckets = {}, {}
    for name, layout in layouts.items():
        ends[name], handle = trained(rank, 6, **layout)
        buckets[name] = handle.stats()["buckets"]
    assert len(set(ends.values())) == 1, ends
    assert buckets["as it comes"] == 6 and buckets["tiny buckets"] > 12, buckets
    return ends


@case
def buckets_as_views_are_the_gradients(rank, size):
    ddp, _ = kit.attached(kit.Sheet(WIDE), "f32", min_size=0,
                          ddp={"gradient_as_bucket_view": True})
    for step in range(3):
        ddp.module.wide.grad = None if step == 0 else ddp.module.wide.grad.zero_()
        ddp(kit.gradients(rank, step, WIDE)).backward()
        kit.check_same({"wide": ddp.module.wide.grad}, kit.exact_means(size, step, WIDE), "f32")


@case
def two_models_train_side_by_side(rank, size):
    alone = [trained(rank, 4, kit.net(seed))[0] for seed in (1, 2)]
    models = [kit.attached(kit.net(seed), **TIDE) for seed in (1, 2)]
    for step in range(4):
        for ddp, _ in models:
            kit.train(ddp, rank, 1, first=step)
    assert [kit.bits(ddp) for ddp, _ in models] == alone
    return alone


class Tied(torch.nn.Module):
    """Uses one matrix twice, freezes another, and has one without elements."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 64, bias=False)
        self.second = torch.nn.Linear(64, 64, bias=False)
        self.second.weight = self.first.weight
        self.frozen = torch.nn.Linear(64, 10, bias=False).requires_grad_(False)
        self.nothing = torch.nn.Parameter(torch.zeros(0))

    def forward(self, inputs):
        return self.frozen(self.second(self.first(inputs))) + self.nothing.sum()


@case
def tied_frozen_and_empty_parameters(rank, size):
    ddp, handle = kit.attached(Tied(), **TIDE)
    kit.train(ddp, rank, 3)
    assert handle.stats()["gradient_bytes"] == 3 * 4 * 64 * 64, handle.stats()
    assert set(kit.contents(handle)["residuals"]) == {"first.weight"}
    return kit.bits(ddp)


# --- accumulation ---


def accumulate(ddp, rank, step, parts):
    """Gradients of several backward passes, the last of which is synchronised."""
    ddp.zero_grad(set_to_none=True)
    for part in range(parts):
        last = part == parts - 1
        with contextlib.nullcontext() if last else ddp.no_sync():
            ddp(kit.gradients(rank, 10 * step + part, WIDE)).backward()
    return {"wide": ddp.module.wide.grad}


def accumulated(rank, step, parts):
    """What that is on one rank: sums in order of the passes."""
    total = kit.gradient(rank, 10 * step, WIDE["wide"])
    for part in range(1, parts):
        total += kit.gradient(rank, 10 * step + part, WIDE["wide"])
    return total


@case
def no_sync_accumulates_and_the_hook_runs_once(rank, size):
    exact, handle = kit.attached(kit.Sheet(WIDE), "f32", min_size=0)
    lossy, _ = kit.attached(kit.Sheet(WIDE), **TIDE)
    at_once, _ = kit.attached(kit.Sheet(WIDE), **TIDE)
    for step in range(3):
        every = [accumulated(r, step, parts=3) for r in range(size)]
        got = accumulate(exact, rank, step, parts=3)
        kit.check_same(got, {"wide": kit.mean_in_order_of_rank(every)}, f"f32, step {step}")
        assert handle.stats()["steps"] == step + 1, handle.stats()
        got = accumulate(lossy, rank, step, parts=3)
        kit.check_same(got, kit.backward(at_once, {"wide": every[rank]}), f"tide, step {step}")


@case
def static_graph_trains_to_the_same_bits(rank, size):
    plain = trained(rank, 4)[0]
    assert trained(rank, 4, ddp={"static_graph": True})[0] == plain
    assert trained(rank, 4, ddp={"static_graph": True, "gradient_as_bucket_view": True})[0] == plain
    return plain


@case
def static_graph_accumulates_too(rank, size):
    kit.needs_torch(2, 0, "no_sync with static_graph that works (DDP fails an assertion)")
    ddp, handle = kit.attached(kit.Sheet(WIDE), "f32", min_size=0, ddp={"static_graph": True})
    # DDP learns the graph at its first pass, which is synchronised.
    kit.check_same(kit.backward(ddp, kit.gradients(rank, 0, WIDE)),
                   kit.exact_means(size, 0, WIDE), "first")
    for step in (1, 2):
        every = [accumulated(r, step, parts=2) for r in range(size)]
        got = accumulate(ddp, rank, step, parts=2)
        kit.check_same(got, {"wide": kit.mean_in_order_of_rank(every)}, f"step {step}")
    assert handle.stats()["steps"] == 3, handle.stats()


# --- unused parameters, uneven inputs ---

BRANCHES = {"trunk": (70, 70), "left": (80, 60), "right": (60, 80)}


@case
def a_branch_unused_on_one_rank_counts_as_zero_there(rank, size):
    ddp, handle = kit.attached(kit.Sheet(BRANCHES), "f32", min_size=0,
                               ddp={"find_unused_parameters": True, "bucket_cap_mb": 0.01})
    for step in range(3):
        every = [kit.gradients(r, step, BRANCHES) for r in range(size)]
        every[step % size].pop("left")
        for given in every:
            given.pop("right")  # unused everywhere: DDP leaves it alone
        got = kit.backward(ddp, every[rank])
        zero = torch.zeros(BRANCHES["left"])
        wanted = {name: kit.mean_in_order_of_rank([given.get(name, zero) for given in every])
                  for name in ("trunk", "left")}
        assert got.pop("right") is None
        kit.check_same(got, wanted, f"step {step}")
    assert handle.stats()["steps"] == 3, handle.stats()


@case
def a_branch_unused_on_one_rank_leaves_ranks_equal(rank, size):
    ddp, handle = kit.attached(kit.Sheet(BRANCHES), **TIDE, ddp={"find_unused_parameters": True})
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(5):
        given = kit.gradients(rank, step, BRANCHES)
        if rank == step % size:
            given.pop("left")
        kit.backward(ddp, given)
        optimizer.step()
    assert handle.stats()["steps"] == 5, handle.stats()
    return kit.bits(ddp)


@case
def join_takes_uneven_inputs(rank, size):
    """Ranks that have nothing left shadow the others: nobody hangs, and all end alike."""
    ddp, handle = kit.attached(kit.Sheet(WIDE), "f32", min_size=0)
    lossy, tide = kit.attached(kit.net(), **TIDE, ddp={"bucket_cap_mb": 0.01})
    steps = 3 + rank
    with ddp.join():
        for step in range(steps):
            got = kit.backward(ddp, kit.gradients(rank, step, WIDE))
            zero = torch.zeros(WIDE["wide"])
            every = [kit.gradient(r, step, WIDE["wide"]) if step < 3 + r else zero
                     for r in range(size)]
            kit.check_same(got, {"wide": kit.mean_in_order_of_rank(every)}, f"step {step}")
    with lossy.join():
        kit.train(lossy, rank, steps)
    assert handle.stats()["steps"] == tide.stats()["steps"] == 3 + size - 1, handle.stats()
    return kit.bits(lossy)


# --- torch.compile, AMP ---


@case
def compiled_inside_of_ddp(rank, size):
    kit.needs_torch(2, 0, "torch.compile")
    plain = trained(rank, 4)[0]
    assert trained(rank, 4, torch.compile(kit.net(), backend="eager"))[0] == plain
    return plain


@case
def compiled_outside_of_ddp(rank, size):
    kit.needs_torch(2, 0, "torch.compile")
    plain = trained(rank, 4)[0]
    compiled = torch.compile(kit.wrap(kit.net()), backend="eager")
    handle = kit.attach(compiled, **TIDE)
    kit.train(compiled, rank, 4)
    assert kit.bits(compiled) == plain
    assert handle.stats()["steps"] == 4, handle.stats()
    with kit.fails(SluiceError, "attached", "already"):
        sluice.torch.attach(compiled)
    return plain


@case
def an_infinite_gradient_on_one_rank_reaches_every_scaler(rank, size):
    kit.needs_torch(2, 3, "GradScaler for the CPU")
    ddp, handle = kit.attached(kit.Sheet(WIDE), "tide", feedback="ef", min_size=0)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)

    def step(number, bad):
        given = kit.gradients(rank, number, WIDE)
        if bad:
            given["wide"][5, 7] = torch.inf
        optimizer.zero_grad()
        scaler.scale(ddp(given)).backward()
        scaler.step(optimizer)
        scaler.update()
        return kit.bits(ddp), kit.contents(handle)["residuals"], scaler.get_scale()

    before, residuals, scale = step(0, bad=False)
    after, kept, halved = step(1, bad=rank == size - 1)
    assert (after, halved) == (before, scale / 2), "the step was not skipped"
    kit.check_same(kept, residuals, "residuals of a skipped step")
    trained, moved, same = step(2, bad=False)
    assert trained != before and same == halved
    assert not kit.same_bits(moved["wide"], residuals["wide"])
    assert handle.stats()["skipped_steps"] == 1, handle.stats()
    return trained


@case
def autocast_trains_and_ranks_stay_equal(rank, size):
    kit.needs_torch(2, 0, "autocast for this network on the CPU")
    ddp, _ = kit.attached(kit.net(), **TIDE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kit.train(ddp, rank, 3)
    return kit.bits(ddp)


# --- processes and threads ---


class Rows(Dataset):
    """Rows of numbers, with what happens to who uses the hook's state in a worker."""

    def __init__(self, state):
        self.state = state

    def __len__(self):
        return 8

    def __getitem__(self, index):
        try:
            hook(self.state, None)
            said = "nothing was raised"
        except SluiceError as error:
            said = str(error)
        return os.getpid(), said, torch.full((64,), float(index))


@case
def workers_of_a_data_loader_fork_while_attached(rank, size):
    ddp, handle = kit.attached(kit.net(), **TIDE)
    kit.train(ddp, rank, 1)
    loader = DataLoader(Rows(handle.state), batch_size=2, num_workers=2, collate_fn=list,
                        multiprocessing_context="fork")
    workers = set()
    for step, rows in enumerate(loader):
        for pid, said, _ in rows:
            workers.add(pid)
            assert "forked" in said and "accepted" in said, said
        ddp(torch.stack([values for _, _, values in rows])).sum().backward()
        assert handle.stats()["steps"] == 2 + step, handle.stats()
    assert len(workers) == 2 and os.getpid() not in workers, workers
    return kit.bits({name: p.grad for name, p in ddp.named_parameters()})


@case
def threads_are_as_many_as_tracks(rank, size):
    assert os.environ["OMP_NUM_THREADS"] == "1"
    for tracks in (1, 4):
        ddp, handle = kit.attached(kit.net(), **TIDE, tracks=tracks, wave=4096)
        names = sorted(t.name for t in kit.lane_threads())
        assert names == [f"sluice-track-{k}" for k in range(tracks)], names
        kit.train(ddp, rank, 2)
        before = kit.thread_count()
        kit.train(ddp, rank, 3)
        assert kit.thread_count() == before, f"threads: {before}, then {kit.thread_count()}"
        dist.barrier()  # The watch over rank 0 ends when that leaves.
        handle.detach()
        assert not kit.lane_threads()


@case
def a_main_thread_that_keeps_the_interpreter_for_itself_delays_and_breaks_nothing(rank, size):
    """Lanes cannot run a line of Python for a second, with buckets on their way."""
    nap = ctypes.PyDLL(None).usleep  # keeps the lock
    for carrier in ("torch", "stream"):
        ddp, handle = kit.attached(kit.Sheet(PAIR), "f32", min_size=0, carrier=carrier,
                                   ddp={"bucket_cap_mb": 0.015})
        submit = handle.state.submit

        def watched(bucket, submit=submit):
            future = submit(bucket)
            if rank == size - 1 and not bucket.is_last():
                nap(999_999)
            return future

        handle.state.submit = watched
        for step in range(3):
            kit.check_same(kit.backward(ddp, kit.gradients(rank, step, PAIR)),
                           kit.exact_means(size, step, PAIR), f"{carrier}, step {step}")
        handle.detach()


@case
def threads_that_move_gradients_have_short_time_slices(rank, size):
    if _time_slices.attributes()[5] == 0:
        raise unittest.SkipTest("Linux before 6.12 has no time slices to ask for")

    def slices():
        found = {int(tid): _time_slices.attributes(int(tid))
                 for tid in os.listdir("/proc/self/task")}
        return {tid: one[5] for tid, one in found.items() if one}  # Else it has just ended.
    for carrier in ("torch", "stream"):
        before = slices()
        ddp, handle = kit.attached(kit.net(), **TIDE, carrier=carrier)
        after = slices()
        same = {tid for tid in before if after.get(tid, before[tid]) == before[tid]}
        assert same == before.keys(), (before, after)  # Some may have ended.
        started = {after[tid] for tid in after.keys() - before.keys()}
        assert started == {_time_slices.SLICE_NS}, (carrier, started)
        handle.detach()


# --- process groups of some ranks ---


def attached_in(group, members, rank, shapes, **options):
    """(DDP model, handle) on the members, None elsewhere; skips where torch cannot."""
    made, reason = None, ""
    if rank in members:
        try:
            made = kit.attached(kit.Sheet(shapes), ddp={"process_group": group}, min_size=0,
                                timeout=10.0, **options)
        except SluiceError as error:
            reason = str(error)
            if kit.TORCH >= (2, 1) or torch.__version__ not in reason:
                raise
    refused = torch.tensor([int(bool(reason))])
    dist.all_reduce(refused)
    if refused.item():
        raise unittest.SkipTest(f"torch {torch.__version__} has no process groups that only their"
                                " members make")
    return made


@case(sizes=(3,))
def a_process_group_of_some_ranks(rank, size):
    """DDP on ranks 0 and 1; rank 2 does something else. All then meet in a model of all ranks."""
    made = attached_in(dist.new_group([0, 1]), [0, 1], rank, WIDE, codec="f32")
    if made:
        ddp, handle = made
        got = kit.backward(ddp, kit.gradients(rank, 0, WIDE))
        kit.check_same(got, kit.exact_means(2, 0, WIDE), "of two")
        handle.detach()
        kit.check_same(kit.backward(ddp, {"wide": torch.full(WIDE["wide"], 1.0 + rank)}),
                       {"wide": torch.full(WIDE["wide"], 1.5)}, "detached")
    ddp, _ = kit.attached(kit.Sheet(WIDE), "f32", min_size=0, timeout=10.0)
    got = kit.backward(ddp, kit.gradients(rank, 1, WIDE))
    kit.check_same(got, kit.exact_means(3, 1, WIDE), "of three")


@case(sizes=(3,))
def a_process_group_of_some_ranks_leaves_those_of_the_user_alone(rank, size):
    made = attached_in(dist.new_group([0, 1]), [0, 1], rank, WIDE, codec="f32")
    total = torch.ones(1)
    dist.all_reduce(total, group=dist.new_group(timeout=datetime.timedelta(seconds=10)))
    assert total.item() == 3
    return bool(made) == (rank < 2)


@case(sizes=(3,))
def overlapping_process_groups(rank, size):
    """Ranks 0 and 1, then 1 and 2: each model meets in a place of its own."""
    pairs = [[0, 1], [1, 2]]
    groups = [dist.new_group(pair) for pair in pairs]
    for pair, group in zip(pairs, groups):
        made = attached_in(group, pair, rank, WIDE, codec="f32")
        if made:
            got = kit.backward(made[0], kit.gradients(rank, 0, WIDE))
            every = [kit.gradient(r, 0, WIDE["wide"]) for r in pair]
            kit.check_same(got, {"wide": kit.mean_in_order_of_rank(every)}, f"of {pair}")


@case
def a_process_group_of_one_rank(rank, size):
    groups = [dist.new_group([r]) for r in range(size)]
    for codec in ("f32", "tide"):
        ddp, handle = attached_in(groups[rank], [rank], rank, WIDE, codec=codec)
        given = kit.gradients(rank, 0, WIDE)
        got = kit.backward(ddp, given)
        assert kit.relative_error(got["wide"], given["wide"]) < (0.05 if codec == "tide" else 1e-30)
        assert handle.stats()["bytes_sent"] == 0 and handle.stats()["ratio"] is None
