"""Cases on a codec per parameter: patterns, choices between steps, what ranks must agree on, and
what a saved state makes of them."""

import os
import warnings
from unittest import mock

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case

import sluice.torch
from sluice.torch import SluiceError, SluiceState, hook

SHAPES = {"embed_in": (33, 129), "embed_out": (40, 128), "head": (64, 96), "bias": (17,)}
MIXED = {"embed_*": "lossless", "*": "tide:bits=2"}
TEXT = "embed_*=lossless; *=tide:bits=2"
SOON = 4.0


def made(codec, **options):
    return kit.attached(kit.Sheet(SHAPES), codec, min_size=0, **options)


def step(ddp, rank, number):
    return kit.backward(ddp, kit.gradients(rank, number, SHAPES))


def check_exact(got, size, number, names):
    """These and no others are the mean but for roundings of float32; all are near it."""
    wanted = kit.exact_means(size, number, SHAPES)
    exact = {name for name in SHAPES if kit.relative_error(got[name], wanted[name]) < 1e-12}
    assert exact == set(names), (number, exact)
    for name in SHAPES:
        assert kit.relative_error(got[name], wanted[name]) < 1, name


# --- patterns ---


@case
def parameters_travel_through_the_codec_of_the_first_pattern_that_matches(rank, size):
    bits = set()
    for codec in (MIXED, {"embed_in": "lossless", "embed_*": "lossless", "he*": "tide:bits=2"}):
        ddp, handle = made(codec)
        for number in range(2):
            got = step(ddp, rank, number)
            check_exact(got, size, number, {"embed_in", "embed_out", "bias"})
        bits.add(kit.bits(got))
        assert handle.stats()["codec"] == codec, handle.stats()
        assert handle.stats()["codecs"] == {"lossless": 2, "tide:bits=2,down=round": 1, "f32": 1}, \
            handle.stats()
        assert set(handle.stats()["layers"]) == {"embed_in", "embed_out", "head"}
    with mock.patch.dict(os.environ, {"SLUICE_CODEC": TEXT}):
        ddp, handle = made(None)
        for number in range(2):
            got = step(ddp, rank, number)
        bits.add(kit.bits(got))
    assert len(bits) == 1, "the same choices in other words"
    assert "embed_*=lossless;*=tide:bits=2" in repr(handle), repr(handle)
    return bits.pop()


@case
def a_plain_spec_is_for_all(rank, size):
    for codec in ("tide:bits=2", {"*": "tide:bits=2"}):
        ddp, handle = made(codec)
        check_exact(step(ddp, rank, 0), size, 0, {"bias"})
        assert handle.stats()["codecs"] == {"tide:bits=2,down=round": 3, "f32": 1}, handle.stats()
    kit.attached(kit.Sheet({"bias": (17,)}), "tide")  # Nothing is left for it.


@case
def patterns_that_do_not_fit_the_parameters_are_refused(rank, size):
    for codec, parts in (
            ({"embed_*": "f32", "hed": "tide", "*": "tide"}, ("['hed']", "no parameter", "head")),
            ({"*": "tide", "embed_*": "f32"}, ("['embed_*']", "no parameter")),
            ({"bias": "tide", "*": "tide"}, ("['bias']", "no parameter", "compressed")),
            ({"embed_*": "f32"}, ("['head']", "no pattern", "'*'"))):
        with kit.fails(ValueError, "codec", "accepted", *parts):
            made(codec)
    with kit.fails(ValueError, "['head']", "no pattern"):
        made({"embed_*": "f32"}, exclude=["embed_out"])
    made({"embed_*": "f32"}, exclude=["head"])[1].detach()
    state = SluiceState(codec=MIXED, timeout=kit.TIMEOUT)
    ddp = kit.wrap(kit.Sheet(SHAPES))
    ddp.register_comm_hook(state, hook)
    with kit.fails(Exception, "patterns", "does not know its model's names", "accepted"):
        step(ddp, rank, 0)
    assert not kit.lane_threads()


@case
def choices_that_make_no_sense_are_refused(rank, size):
    for wrong in ({}, {"*": 4}, {3: "tide"}, 7, ["tide"], "a=f32;tide", "a=f32;a=tide",
                  "a:b=f32;c=tide"):
        with kit.fails(ValueError, "codec is", repr(wrong), "accepted"):
            SluiceState(codec=wrong)
    with kit.fails(ValueError, "codec: ", "tyde", "tide"):
        SluiceState(codec={"*": "tyde"})
    with mock.patch.dict(os.environ, {"SLUICE_CODEC": "*=tyde"}):
        with kit.fails(ValueError, "environment variable SLUICE_CODEC", "tyde", "tide"):
            SluiceState()


@case
def a_codec_that_refuses_feedback_is_refused_for_some_parameters_too(rank, size):
    with kit.fails(ValueError, "'ef'", "thc:bits=1", "diverge", "accepted: feedback none"):
        made({"head": "thc:bits=1", "*": "tide"}, feedback="ef")
    assert not kit.lane_threads()


@case
def ranks_with_other_patterns_all_say_so(rank, size):
    codec = dict(MIXED, head="tide:bits=3") if rank == size - 1 else MIXED
    with kit.fails(SluiceError, "disagree on codec", "head", "embed_*", f"rank {size - 1}",
                   "accepted") as caught:
        made(codec if rank < size - 1 else {"head": "tide:bits=3", **MIXED}, timeout=SOON)
    return caught.text


# --- choices between steps ---


@case
def a_choice_between_steps_carries_the_residual_over(rank, size):
    """What tide lost is in the mean of the step that f32 sends, and nothing is owed after it."""
    ddp, handle = made("tide:bits=2", feedback="ef")
    total = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in SHAPES.items()}
    means = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in SHAPES.items()}
    for number in range(4):
        if number == 3:
            assert kit.contents(handle)["residuals"]["head"].abs().max() > 0.01
            handle.choose("head", "f32")
            assert "head=f32;*=tide:bits=2" in repr(handle), repr(handle)
        got = step(ddp, rank, number)
        for name in SHAPES:
            for other in range(size):
                total[name] += kit.gradient(other, number, SHAPES[name]).double()
            means[name] += size * got[name].double()
    held = kit.contents(handle)
    assert not held["residuals"]["head"].any()
    assert held["residuals"]["embed_in"].any()
    assert held["codecs"]["head"] == "f32", held["codecs"]
    owed = (total["head"] - means["head"]).abs().max()
    assert owed < 1e-4, owed  # roundings of float32, of values up to about 10
    assert handle.stats()["codecs"]["f32"] == 2, handle.stats()
    check_exact(step(ddp, rank, 4), size, 4, {"head", "bias"})
    handle.choose("h*", "tide:bits=4")
    check_exact(step(ddp, rank, 5), size, 5, {"bias"})
    return kit.bits(got)


@case
def ranks_that_choose_differently_all_say_so_and_go_on(rank, size):
    ddp, handle = made("tide:bits=2", timeout=SOON)
    step(ddp, rank, 0)
    last = rank == size - 1
    for pattern, codec in (("head", "f32" if last else "tide:bits=3"),
                           ("head" if last else "embed_*", "f32")):
        with kit.fails(SluiceError, "disagree on codec", "head=f32", f"rank {size - 1}",
                       "accepted") as caught:
            handle.choose(pattern, codec)
    assert handle.stats()["codecs"] == {"tide:bits=2,down=round": 3, "f32": 1}, handle.stats()
    handle.choose("head", "tide" if last else "tide:bits=4")  # in other words
    check_exact(step(ddp, rank, 1), size, 1, {"bias"})
    return caught.text


@case(sizes=(3,))
def a_rank_that_does_not_choose_is_named(rank, size):
    ddp, handle = made("tide:bits=2", timeout=SOON)
    step(ddp, rank, 0)
    if rank != 1:
        with kit.fails(SluiceError, "choose()", "not on rank 1 within 4 s", "accepted"):
            handle.choose("head", "f32")
    dist.barrier()
    if rank == 1:  # which finds everybody, but too late
        with kit.fails(SluiceError, "choose()", "not on rank 1 within 4 s", "accepted"):
            handle.choose("head", "f32")
    check_exact(step(ddp, rank, 1), size, 1, {"bias"})
    handle.choose("head", "f32")
    check_exact(step(ddp, rank, 2), size, 2, {"head", "bias"})


@case
def a_rank_that_refuses_is_heard_by_the_others(rank, size):
    ddp, handle = made("tide:bits=2", timeout=SOON)
    if rank == size - 1:
        with kit.fails(ValueError, "codec", "tyde", "accepted"):
            handle.choose("head", "tyde")
    else:
        with kit.fails(SluiceError, f"refused by rank {size - 1}", "tyde", "accepted"):
            handle.choose("head", "f32")
    handle.choose("head", "f32")
    check_exact(step(ddp, rank, 0), size, 0, {"head", "bias"})


@case
def a_choice_before_a_step_that_a_loaded_state_brings_back_is_a_new_one(rank, size):
    ddp, handle = made("tide:bits=2", timeout=SOON)
    saved = handle.state_dict()
    handle.choose("head", "f32")
    step(ddp, rank, 0)
    handle.load_state_dict(saved)
    handle.choose("head", "tide:bits=3")  # What the others said the first time is no answer.
    handle.choose("head", "f32")
    check_exact(step(ddp, rank, 0), size, 0, {"head", "bias"})


@case
def a_rank_may_leave_once_it_has_chosen(rank, size):
    """The others hear of its end before they look at what it chose."""
    _, handle = made("tide:bits=2", timeout=SOON)
    ranks = handle.state.ranks
    if rank == 0:
        def late(key, seconds, wait=ranks._wait_for):
            while not ranks.watch.doom():
                ranks.watch.words(size - 1, SOON)
            return wait(key, seconds)

        ranks._wait_for = late
    handle.choose("head", "f32")
    handle.detach()


@case
def choices_that_are_refused_change_nothing(rank, size):
    ddp, handle = made("tide:bits=2", feedback="ef")
    step(ddp, rank, 0)
    before = repr(handle), handle.stats()["codecs"]
    for pattern, codec, parts in (("head", "thc:bits=1", ("'ef'", "diverge")),
                                  ("hed", "f32", ("'hed'", "matches no parameter", "head")),
                                  ("bias", "f32", ("'bias'", "matches no parameter")),
                                  ("head", "tyde", ("codec", "tyde", "tide"))):
        with kit.fails(ValueError, "accepted", *parts):
            handle.choose(pattern, codec)
    assert (repr(handle), handle.stats()["codecs"]) == before, handle
    check_exact(step(ddp, rank, 1), size, 1, {"bias"})
    handle.state._seen.add(1)
    with kit.fails(SluiceError, "within step 2", "accepted: between steps"):
        handle.choose("head", "f32")
    handle.state._seen.clear()
    handle.detach()
    with kit.fails(SluiceError, "not attached", "accepted"):
        handle.choose("head", "f32")


@case
def before_start_step_all_choose_f32(rank, size):
    ddp, handle = made(MIXED, start_step=2)
    for number in range(4):
        if number == 1:
            handle.choose("head", "tide:bits=3")  # which holds from step 2 on
        exact = set(SHAPES) if number < 2 else set(SHAPES) - {"head"}
        now = handle.stats()["codecs"]
        assert now["f32"] == (4 if number < 3 else 1), now  # Choices hold when a step begins.
        check_exact(step(ddp, rank, number), size, number, exact)
    wanted = {"lossless": 2, "tide:bits=3,down=round": 1, "f32": 1}
    assert handle.stats()["codecs"] == wanted, handle.stats()


# --- saved states ---


@case
def a_state_has_the_codec_of_every_parameter_and_resumes(rank, size):
    codec = {"head": "tide:scales=previous", **MIXED}

    def on(handle, ddp, first):
        for number in range(first, first + 2):
            got = step(ddp, rank, number)
        return got

    ddp, handle = made({"head": codec["head"], "embed_*": "lossless"}, feedback="ef")
    on(handle, ddp, 0)
    saved, codecs = handle.state_dict(), kit.contents(handle)["codecs"]
    assert saved["version"] == 3 and codecs == {
        "embed_in": "lossless", "embed_out": "lossless", "bias": "f32",
        "head": codecs["head"]}, codecs
    assert "scales=previous" in codecs["head"]
    wanted = on(handle, ddp, 2)
    ddp, handle = made({"head": codec["head"], "embed_*": "lossless"}, feedback="ef")
    handle.load_state_dict(saved)
    kit.check_same(on(handle, ddp, 2), wanted, "resumed")


@case
def a_state_of_other_codecs_keeps_residuals_and_drops_codec_state(rank, size):
    ddp, handle = made("tide:scales=previous", feedback="ef")
    for number in range(2):
        step(ddp, rank, number)
    saved, held = handle.state_dict(), kit.contents(handle)
    for codec, stateful in (("tide:bits=3", False), ("tide:scales=previous,bits=3", True),
                            ({"head": "f32", "*": "tide:scales=previous"}, True)):
        ddp, other = made(codec, feedback="ef")
        step(ddp, rank, 7)
        other.load_state_dict(saved)
        now = kit.contents(other)
        kit.check_same(now["residuals"], held["residuals"], f"residuals under {codec}")
        assert bool(now["states"]) == stateful, (codec, now["states"].keys())
        fresh = kit.contents(made(codec, feedback="ef")[1])["states"]
        for name, state in now["states"].items():
            same = kit.same_bits(state, held["states"].get(name, state[:0]))
            assert same == (codec != "tide:scales=previous,bits=3"), (codec, name)
            assert same or kit.same_bits(state, fresh[name]), (codec, name)
        assert other.state.step == 2
        step(ddp, rank, 2)


@case
def a_state_of_version_1_still_loads(rank, size):
    """As a Sluice with one codec for all saved it."""
    ddp, handle = made("tide:scales=previous", feedback="ef")
    for number in range(2):
        step(ddp, rank, number)
    saved = kit.contents(handle)
    spec = saved["codecs"]["head"]
    old = {key: saved[key] for key in ("rank", "world", "step", "feedback", "residuals", "states")}
    old.update(version=1, codec=spec, model=saved["models"][spec])
    wanted = step(ddp, rank, 2)
    ddp, handle = made("tide:scales=previous", feedback="ef")
    handle.load_state_dict(old)
    kit.check_same(step(ddp, rank, 2), wanted, "resumed")
    with kit.fails(ValueError, "state without model"):
        handle.load_state_dict({key: value for key, value in old.items() if key != "model"})


# --- feedback ---


@case
def dgc_keeps_two_memories_and_resumes(rank, size):
    for spec in ("dgc", "dgc:momentum=0.5"):
        ddp, handle = made("tide:bits=2", feedback=spec)
        for number in range(3):
            step(ddp, rank, number)
        saved, held = handle.state_dict(), kit.contents(handle)
        assert len(held["memories"]) == 1, held["memories"].keys()
        momentum, = held["memories"].values()
        assert set(momentum) == set(held["residuals"]) == set(SHAPES) - {"bias"}
        assert all(value.shape == held["residuals"][name].shape
                   for name, value in momentum.items())
        wanted = step(ddp, rank, 3)
        ddp, other = made("tide:bits=2", feedback=spec)
        other.load_state_dict(saved)
        kit.check_same(step(ddp, rank, 3), wanted, "resumed")
        plain = made("tide:bits=2", feedback="ef")[1]
        with kit.fails(ValueError, "feedback", "'dgc'", "accepted", "'ef'"):
            plain.load_state_dict(saved)
        with kit.fails(ValueError, "feedback", "'ef'", "accepted"):
            other.load_state_dict({**held, "feedback": "ef"})
        name, = held["memories"]
        for damaged in ({}, {**momentum, "head": momentum["head"][:-1]},
                        {**momentum, "stranger": momentum["head"]}):
            with kit.fails(ValueError, "accepted"):
                other.load_state_dict({**held, "memories": {name: damaged}})


@case
def feedback_is_what_the_library_has(rank, size):
    for wrong in ("efx", "EF", 1, "ef:momentum=1", "dgc:momentum=2", "dgc:speed=1", "none\0"):
        with kit.fails(ValueError, "feedback", str(wrong).rstrip("\0").split("=")[0].split(":")[-1],
                       "accepted"):
            SluiceState(feedback=wrong)
    with mock.patch.dict(os.environ, {"SLUICE_FEEDBACK": "efx"}):
        with kit.fails(ValueError, "environment variable SLUICE_FEEDBACK", "efx", "accepted"):
            SluiceState()
    assert sluice.torch.SluiceState(feedback="dgc:momentum=0.9").settings.feedback[:3] == "dgc"


# --- a name that has changed ---


@case
def parcel_is_called_wave(rank, size):
    with kit.fails(TypeError, "'parcel'", "'wave'", "accepted"):
        kit.attach(kit.wrap(kit.Sheet(SHAPES)), "tide", parcel=4096)
    with mock.patch.dict(os.environ, {"SLUICE_PARCEL": "4096"}):
        with kit.fails(ValueError, "SLUICE_PARCEL", "SLUICE_WAVE", "accepted"):
            SluiceState()
    with mock.patch.dict(os.environ, {"SLUICE_PARCEL": ""}):
        SluiceState()


@case
def tracks_may_be_called_lanes(rank, size):
    assert SluiceState(lanes=3).settings.tracks == 3
    for said, wanted in (({"SLUICE_LANES": "4"}, 4),
                         ({"SLUICE_LANES": "", "SLUICE_TRACKS": "2"}, 2),
                         ({"SLUICE_LANES": "", "SLUICE_TRACKS": ""}, None)):
        with mock.patch.dict(os.environ, said), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert SluiceState().settings.tracks == wanted, said
    with kit.fails(ValueError, "lanes and tracks", "accepted: tracks"):
        SluiceState(lanes=1, tracks=2)
