"""Cases on gradients that stay on a device, by an emulated one: SLUICE_CUDA_LIBRARY=emulated.

Every case compares with the same job on the host: bits must be the same.
"""

import contextlib
import logging
import os
import unittest
from unittest import mock

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case

import sluice.torch
from sluice.torch import SluiceError, SluiceState, _native, _placement, hook

# Through memory of the host, and from device to device by one thread, as over NCCL.
WAYS = {"gloo": {"backend": "gloo"}, "nccl": {"backend": "nccl", "tracks": 4}}
TINY = {"bucket_cap_mb": 0.02}
EF = {"codec": "tide:bits=4", "feedback": "ef", "min_size": 0, "check_every": 2}


@contextlib.contextmanager
def host():
    """What attaches within does not see the emulated device."""
    with mock.patch.dict(os.environ, {"SLUICE_CUDA_LIBRARY": ""}):
        yield


def attached(way, model, ddp=None, **options):
    """(DDP model, handle) on the device, or for the way "host" not."""
    with host() if way == "host" else contextlib.nullcontext():
        made = kit.attached(model, ddp=ddp, **{**options, **WAYS.get(way, {})})
    assert made[1].state.place.on_device == (way != "host")
    return made


def like_the_host(rank, steps, model, act=None, ddp=None, ways=tuple(WAYS), **options):
    """Trains on the host and in all ways on the device to the same weights and residuals; the
    handles by way. `act` is called with a handle and a step before each step."""
    handles, wanted = {}, None
    for way in ("host", *ways):
        wrapped, handles[way] = attached(way, model(), ddp or TINY, **options)
        for step in range(steps):
            if act is not None:
                act(handles[way], step)
            kit.train(wrapped, rank, 1, first=step)
        contents = kit.contents(handles[way])
        got = kit.bits(wrapped), kit.bits(contents["residuals"]), contents["codecs"]
        wanted = wanted or got
        assert got == wanted, f"{way}: {got} instead of {wanted}"
    return handles


@case
def means_are_those_of_the_host(rank, size):
    for codec in ("f32", "bf16", "fp16", "tide:bits=4", "tide:bits=2", "tide:bits=8,scales=now"):
        handles = like_the_host(rank, 4, kit.net, codec=codec, min_size=0, check_every=2)
        for way in WAYS:
            stats = handles[way].stats()
            assert stats["buckets"] > 4 and stats["checks"] == 2, stats
            assert stats["device"]["launches"] > 0 and stats["device"]["waves"] > 0, stats
        assert handles["host"].stats()["device"]["launches"] == 0


@case
def residuals_are_those_of_the_host(rank, size):
    like_the_host(rank, 6, kit.net, **EF)
    like_the_host(rank, 4, kit.net, **{**EF, "codec": "tide:bits=3"}, wave=4096)


@case
def scales_of_the_step_before_are_those_of_the_host(rank, size):
    like_the_host(rank, 6, kit.net, **{**EF, "codec": "tide:bits=4,scales=previous"})


@case
def exact_and_compressed_parameters_travel_together(rank, size):
    """Biases and small matrices are exact; exclude, min_size and patterns are as on the host."""
    like_the_host(rank, 4, kit.net, codec={"0.*": "bf16", "*": "tide:bits=4"}, min_size=4096)
    like_the_host(rank, 4, kit.net, codec="tide:bits=4", feedback="ef", exclude=["2.*"])


@case
def steps_before_start_step_are_exact(rank, size):
    like_the_host(rank, 5, kit.net, **EF, start_step=2)


@case
def a_codec_may_change_between_steps(rank, size):
    def act(handle, step):
        if step in (2, 4):
            handle.choose("2.weight", "f32" if step == 2 else "tide:bits=2")
    like_the_host(rank, 6, kit.net, act, **EF)


def train_half(ddp, rank, steps, dtype):
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(steps):
        inputs, wanted = (one.to(dtype) for one in kit.batch(rank, step))
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(ddp(inputs), wanted).backward()
        optimizer.step()


@case
def half_precision_is_handed_over_as_it_is(rank, size):
    for dtype in (torch.bfloat16, torch.float16):
        for codec in ("tide:bits=4", "f32"):
            ends = {}
            for way in ("host", *WAYS):
                ddp, handle = attached(way, kit.net().to(dtype), TINY, **{**EF, "codec": codec})
                with mock.patch.object(sluice.torch._work.DenseWork, "unpack",
                                       side_effect=AssertionError) \
                        if way != "host" else contextlib.nullcontext():
                    train_half(ddp, rank, 4, dtype)
                ends[way] = kit.bits(ddp), kit.bits(kit.contents(handle)["residuals"])
            assert len(set(ends.values())) == 1, (dtype, codec, ends)


@case
def a_step_with_infinity_changes_no_residual(rank, size):
    shapes = {"wide": (33, 129), "flat": (50,)}

    def run(way):
        ddp, handle = attached(way, kit.Sheet(shapes), **EF)
        seen = []
        for step in range(4):
            given = kit.gradients(rank, step, shapes)
            if step == 2 and rank == size - 1:
                given["wide"][5, 7] = torch.inf
            got = kit.backward(ddp, given)
            seen.append((bool(torch.isfinite(got["wide"]).all()),
                         kit.bits(kit.contents(handle)["residuals"])))
        assert [finite for finite, _ in seen] == [True, True, False, True], seen
        assert seen[1][1] == seen[2][1] != seen[3][1], seen
        assert handle.stats()["skipped_steps"] == 1, handle.stats()
        return seen

    wanted = run("host")
    for way in WAYS:
        assert run(way) == wanted, way


@case
def half_precision_that_overflows_is_a_skipped_step(rank, size):
    shapes = {"wide": (33, 129)}
    for way in ("host", *WAYS):
        ddp, handle = attached(way, kit.Sheet(shapes, torch.float16), **{**EF, "codec": "f32"})
        given = kit.gradients(rank, 0, shapes, dtype=torch.float16)
        given["wide"][0, 0] = torch.inf if rank == 0 else 1
        kit.backward(ddp, given)
        assert handle.stats()["skipped_steps"] == 1, (way, handle.stats())


@case
def a_scaler_skips_the_same_steps(rank, size):
    kit.needs_torch(2, 3, "GradScaler for the CPU")
    shapes = {"wide": (33, 129)}
    ends = {}
    for way in ("host", *WAYS):
        ddp, handle = attached(way, kit.Sheet(shapes), **EF)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
        for step in range(4):
            given = kit.gradients(rank, step, shapes)
            if step == 1 and rank == 0:
                given["wide"][1, 1] = torch.nan
            optimizer.zero_grad()
            scaler.scale(ddp(given)).backward()
            scaler.step(optimizer)
            scaler.update()
        ends[way] = kit.bits(ddp), scaler.get_scale(), handle.stats()["skipped_steps"]
    assert len(set(ends.values())) == 1 and ends["host"][1:] == (512.0, 1), ends


@case
def states_move_between_host_and_device(rank, size):
    """Four steps in four places have the bits of four in one."""
    ddp, handle = attached("host", kit.net(), TINY, **EF)
    kit.train(ddp, rank, 8)
    wanted = kit.bits(ddp), kit.bits(kit.contents(handle)["residuals"])
    model, saved = kit.net().state_dict(), None
    for number, way in enumerate(("host", "gloo", "host", "nccl")):
        ddp, handle = attached(way, kit.net(), TINY, **EF)
        ddp.module.load_state_dict(model)
        if saved is not None:
            handle.load_state_dict(saved)
        kit.train(ddp, rank, 2, first=2 * number)
        model, saved = ddp.module.state_dict(), handle.state_dict()
    got = kit.bits(ddp), kit.bits(kit.contents(handle)["residuals"])
    assert got == wanted, (got, wanted)


@case
def ddp_features_are_as_on_the_host(rank, size):
    for ddp in ({"gradient_as_bucket_view": True}, {"static_graph": True},
                {"find_unused_parameters": True}, {}):
        like_the_host(rank, 4, kit.net, ddp={**TINY, **ddp}, **EF)
    if kit.TORCH >= (2, 0):
        like_the_host(rank, 4, lambda: torch.compile(kit.net(), backend="eager"),
                      ddp={"bucket_cap_mb": 25}, **EF)


@case
def no_sync_accumulates(rank, size):
    ends = {}
    for way in ("host", *WAYS):
        ddp, _ = attached(way, kit.net(), TINY, **EF)
        for step in range(3):
            inputs, _ = kit.batch(rank, step)
            with ddp.no_sync():
                ddp(inputs).sum().backward()
            ddp(inputs + 1).sum().backward()
        ends[way] = kit.bits({name: p.grad for name, p in ddp.named_parameters()})
    assert len(set(ends.values())) == 1, ends


@case
def two_models_take_turns(rank, size):
    ends = {}
    for way in ("host", *WAYS):
        models = [attached(way, kit.net(seed), TINY, **EF)[0] for seed in (1, 2)]
        for step in range(3):
            for ddp in models:
                kit.train(ddp, rank, 1, first=step)
        ends[way] = [kit.bits(ddp) for ddp in models]
    assert ends["gloo"] == ends["nccl"] == ends["host"], ends


@case
def two_models_in_one_backward_pass_have_no_common_order_over_nccl(rank, size):
    """All ranks are told so at the same bucket. Over Gloo, and on the host, they have."""
    if not hasattr(torch._C, "_current_graph_task_id"):
        raise unittest.SkipTest(f"torch {torch.__version__} does not number backward passes")
    inputs, _ = kit.batch(rank, 0)
    for way in ("host", *WAYS):
        first, second = (attached(way, kit.net(seed), TINY, **EF)[0] for seed in (1, 2))
        if way == "nccl":
            with kit.fails((RuntimeError, SluiceError), "two attached models over NCCL",
                           "one backward pass", "accepted: "):
                (first(inputs).sum() + second(inputs).sum()).backward()
            dist.barrier()  # Nobody leaves while another has buckets of the first model on its way.
            continue
        for _ in range(3):
            (first(inputs).sum() + second(inputs).sum()).backward()
        kit.train(second, rank, 2)


class Mixed(torch.nn.Module):
    """Sparse rows, float64 and ordinary parameters: turns beside waves."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(50, 8, sparse=True)
        self.exact = torch.nn.Linear(8, 8, dtype=torch.float64)
        self.plain = torch.nn.Linear(8, 600)

    def forward(self, rows):
        found = self.table(rows)
        return self.exact(found.double()).sum() + self.plain(found).sum()


@case
def turns_of_other_gradients_come_between(rank, size):
    ends = {}
    for way in ("host", *WAYS):
        ddp, handle = attached(way, Mixed(), **EF)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            ddp(torch.arange(rank, 9 + step)).backward()
            optimizer.step()
        ends[way] = kit.bits(ddp)
        assert handle.stats()["sparse_buckets"] == handle.stats()["exact_buckets"] == 4
    assert len(set(ends.values())) == 1, ends


@case
def a_hook_without_its_model(rank, size):
    ends = {}
    for way in ("host", *WAYS):
        ddp = kit.wrap(kit.net(), **TINY)
        state = SluiceState(**{**EF, **WAYS.get(way, {}), "timeout": kit.TIMEOUT})
        kit.launched_ranks.later(state.close)
        ddp.register_comm_hook(state, hook)
        with host() if way == "host" else contextlib.nullcontext():
            kit.train(ddp, rank, 4)
        assert state.place.on_device == (way != "host")
        ends[way] = kit.bits(ddp)
    assert len(set(ends.values())) == 1, ends
    return ends["host"]


# --- which way ---


@case
def the_way_is_that_of_ddp(rank, size):
    _, handle = kit.attached(kit.net(), codec="tide")
    place = handle.state.place
    assert (place.on_device, place.carries, place.wave) == (True, False, 2**23), place
    with mock.patch.dict(os.environ, {_placement.EMULATED_CARRIES: "1"}):
        handle = sluice.torch.attach(kit.wrap(kit.net()), "tide", timeout=kit.TIMEOUT)
        kit.launched_ranks.later(handle.detach)
    place = handle.state.place
    assert (place.carries, place.tracks, place.group_count) == (True, 6, 1), place
    assert [thread.name for thread in kit.lane_threads()].count("sluice-track-all") == 1
    assert len(handle.state.ranks.groups) == 1


@case
def what_has_no_kernels_goes_through_the_host_and_says_so(rank, size):
    for options, word in (({"codec": "thc"}, "'thc'"), ({"feedback": "dgc"}, "'dgc'"),
                          ({"carrier": "stream"}, "'stream'"),
                          ({"codec": {"0.*": "lossless", "*": "tide"}}, "'lossless'")):
        with mock.patch.object(logging.getLogger("sluice"), "warning") as warning:
            ddp, handle = kit.attached(kit.net(), **{"codec": "tide", **options})
        assert not handle.state.place.on_device
        said = [str(call.args) for call in warning.call_args_list]
        assert len(said) == (rank == 0) and all(word in text for text in said), said
        kit.train(ddp, rank, 2)
        with kit.fails(ValueError, "backend 'nccl'", word, "accepted"):
            sluice.torch.attach(kit.wrap(kit.net()), **{"codec": "tide", **options},
                                backend="nccl")


@case
def a_codec_without_kernels_cannot_be_chosen_later(rank, size):
    for way in WAYS:
        ddp, handle = attached(way, kit.net(), **EF)
        with kit.fails(ValueError, "'thc'", "accepted: f32, bf16, fp16 and tide"):
            handle.choose("*", "thc")
        kit.train(ddp, rank, 1)


@case
def the_log_says_that_errors_are_not_measured(rank, size):
    with mock.patch.object(logging.getLogger("sluice"), "info") as info:
        ddp, handle = kit.attached(kit.net(), codec="tide", probe_every=1)
    said = " ".join(str(call.args) for call in info.call_args_list)
    assert ("not measured" in said) == (rank == 0), said
    kit.train(ddp, rank, 2)
    assert handle.stats()["vnmse"] is None


@case
def ranks_that_average_in_different_places_are_told_so(rank, size):
    with host() if rank == 0 else contextlib.nullcontext():
        with kit.fails(sluice.torch.SluiceError, "ranks disagree on", "where codecs run"):
            kit.attached(kit.net(), codec="tide")


# --- memory ---


def addresses(handle):
    """Of the buffers of collectives, which change when one grows."""
    return [buffer._bytes.data_ptr() for track in handle.state.tracks
            for buffer in track.collectives._buffers]


def takes_no_memory(handle, train):
    """Runs it; neither buffers nor what the library has on the device grow meanwhile."""
    before = addresses(handle)
    train()
    counts = handle.stats()["device"]
    assert counts["waves"] > 0 and counts["grown"] == 0, counts
    assert addresses(handle) == before


@case
def memory_is_taken_at_the_start(rank, size):
    """Waves are full: a chunk is one, and no wave can have more than 8 bits."""
    full = {"min_size": 0, "wave": 1 << 14}
    for way in WAYS:
        for codec, feedback in (("tide:bits=8", "ef"), ("tide:bits=8,scales=previous", "ef"),
                                ("tide:bits=8", "none"), ("bf16", "none"), ("f32", "ef")):
            ddp, handle = attached(way, kit.net().bfloat16(), TINY, codec=codec,
                                   feedback=feedback, **full)
            takes_no_memory(handle, lambda: train_half(ddp, rank, 4, torch.bfloat16))
            handle.detach()
            dist.barrier()


@case
def memory_for_codecs_that_come_later_is_taken_between_steps(rank, size):
    full = {"codec": "tide:bits=1", "min_size": 0, "wave": 1 << 14}
    for way in WAYS:
        ddp, handle = attached(way, kit.net(), TINY, **full)
        kit.train(ddp, rank, 1)
        for codec in ("tide:bits=8", "f32", "tide:bits=8,scales=previous"):
            handle.choose("*", codec)
            takes_no_memory(handle, lambda: kit.train(ddp, rank, 3))
        ddp, handle = attached(way, kit.net(), TINY, **{**full, "codec": "tide:bits=8"},
                               start_step=2)
        takes_no_memory(handle, lambda: kit.train(ddp, rank, 2))
        kit.train(ddp, rank, 1, first=2)
        takes_no_memory(handle, lambda: kit.train(ddp, rank, 2, first=3))


@case
def a_hook_without_its_model_takes_memory_as_it_learns(rank, size):
    for way in WAYS:
        ddp = kit.wrap(kit.net(), **TINY)
        state = SluiceState(codec="tide:bits=8", wave=1 << 14, **WAYS[way], timeout=kit.TIMEOUT)
        kit.launched_ranks.later(state.close)
        ddp.register_comm_hook(state, hook)
        kit.train(ddp, rank, 3)
        counts = state.stats()["device"]
        assert counts["waves"] > 0 and counts["grown"] == 0, (way, counts)


@case
def more_than_was_reserved_is_counted(rank, size):
    for way in WAYS:
        ddp, handle = attached(way, kit.net(), TINY, codec="tide:bits=1", min_size=0,
                               wave=1 << 14)
        with mock.patch.object(_native.Port, "reserve"):  # as if nobody had thought of it
            handle.choose("*", "f32")
        kit.train(ddp, rank, 1)
        assert handle.stats()["device"]["grown"] > 0, way


@case(sizes=(2,))
def buffers_of_collectives_are_as_large_as_docs_say(rank, size):
    """Of an element in flight; tests of the library hold all memory to its bound."""
    wave = 1 << 22
    for way, wanted in (("gloo", 2.33), ("nccl", 1.77)):
        _, handle = attached(way, kit.Sheet({"wide": (4096, 1024)}), codec="tide:bits=4",
                             feedback="ef", wave=wave)
        for track in handle.state.tracks:
            taken = track.collectives.taken_bytes / wave
            assert wanted <= taken <= 1.1 * wanted, (way, taken)
        handle.detach()
