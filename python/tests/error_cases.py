"""Cases on mistakes: wrong use, wrong values, ranks that disagree, saved states that do not fit."""

import io
import math
import os
import warnings
from unittest import mock

import ddp_kit as kit
import torch
import torch.distributed as dist
from ddp_kit import case

import sluice
import sluice.torch
from sluice.torch import SluiceError, SluiceState, _placement, hook

WIDE = {"wide": (33, 129)}
SOON = 8.0  # seconds: a limit where a fault would make ranks wait for each other


def sheet():
    return kit.wrap(kit.Sheet(WIDE))


# --- wrong use ---


@case
def attach_wants_a_ddp_model(rank, size):
    for wrong, name in ((kit.net(), "torch.nn.modules.container.Sequential"), (None, "NoneType"),
                        (7, "int"), (torch.zeros(3), "Tensor")):
        with kit.fails(TypeError, name, "accepted", "DistributedDataParallel"):
            kit.attach(wrong)


@case
def attach_works_once(rank, size):
    ddp, _ = kit.attached(kit.Sheet(WIDE), "f32", min_size=0)
    with kit.fails(SluiceError, "attached", "already", "accepted"):
        kit.attach(ddp, "f32")
    kit.check_same(kit.backward(ddp, kit.gradients(rank, 0, WIDE)),
                   kit.exact_means(size, 0, WIDE), "after the refusal")


@case
def attach_after_a_backward_pass_is_refused(rank, size):
    ddp = sheet()
    ddp(kit.gradients(rank, 0, WIDE)).backward()
    with kit.fails(SluiceError, "after a backward pass", "accepted"):
        kit.attach(ddp)
    ddp(kit.gradients(rank, 1, WIDE)).backward()
    for parameter in ddp.parameters():
        parameter.grad = None
    with kit.fails(SluiceError, "after a backward pass", "accepted"):
        kit.attach(ddp)


@case
def attach_beside_another_hook_is_refused(rank, size):
    ddp = sheet()
    ddp.register_comm_hook(SluiceState(codec="f32"), hook)
    with kit.fails(SluiceError, "hook"):
        kit.attach(ddp, "f32")
    assert not kit.lane_threads()


@case
def attach_before_init_process_group_is_refused(rank, size):
    state = SluiceState(codec="f32")
    torch.distributed.barrier()  # Nobody still connects to the group that goes away.
    torch.distributed.destroy_process_group()
    with kit.fails(SluiceError, "not initialised", "accepted", "init_process_group"):
        state.start()


# --- wrong values ---

BAD_CODECS = {"tyde": ("tyde", "tide"), "": ("accepted",), "tide:bits=9": ("9", "1 to 8"),
              "tide:bots=4": ("bots", "bits"), "tide:bits=x": ("x", "1 to 8"),
              "f32\0": ("f32",)}
BAD_VALUES = {
    "exclude": (5, 1.5),
    "min_size": (-1, 2**40 + 1, "many", 1.5, True, math.inf, math.nan, [3]),
    "start_step": (-1, 2**40 + 1, "late", 1.5, False),
    "seed": (-1, 2**63, "x", 0.5),
    "tracks": (0, 17, "two", 2.5, True, math.inf, math.nan, b"2"),
    "wave": (4095, 2**28 + 1, 4096.5, "x"),
    "timeout": (0, 0.05, -1, 86401, math.inf, math.nan, "soon", True),
    "check_every": (-1, 2**31 + 1, "x"),
    "probe_every": (-1, 2**31 + 1, "x"),
    "backend": ("mpi", "GLOO", 3),
    "carrier": ("pigeon", "local", 3),
    "aggregators": (5, 1.5),
}


@case
def an_unknown_codec_is_refused_with_what_there_is(rank, size):
    for spec, parts in BAD_CODECS.items():
        with kit.fails(ValueError, *parts):
            kit.attach(sheet(), spec)


@case
def an_unknown_option_is_refused_with_those_there_are(rank, size):
    with kit.fails(TypeError, "'codecs'", "accepted", "codec", "probe_every"):
        kit.attach(sheet(), codecs="tide")
    with kit.fails(TypeError, "'bits'", "accepted", "min_size"):
        SluiceState(bits=4)


@case
def values_out_of_range_are_refused_with_what_is_accepted(rank, size):
    accepted = {row[0]: row[2] for row in sluice.torch.environment_table()}
    for option, values in BAD_VALUES.items():
        for value in values:
            try:
                with kit.fails(ValueError, option, repr(value), "accepted",
                               accepted[f"SLUICE_{option.upper()}"]):
                    kit.attach(sheet(), "f32", **{option: value})
            except BaseException as error:
                raise AssertionError(f"{option}={value!r}: {error!r}") from error
    assert not kit.lane_threads()


@case
def variables_out_of_range_are_refused_with_what_is_accepted(rank, size):
    accepted = {row[0]: row[2] for row in sluice.torch.environment_table()}
    texts = {"min_size": ["-1", "many", "1.5"], "start_step": ["x"],
             "seed": ["-1"], "tracks": ["0", "17", "two"], "wave": ["1"], "timeout": ["inf", "x"],
             "check_every": ["-1"], "probe_every": ["x"], "backend": ["mpi"]}
    for option, values in texts.items():
        variable = f"SLUICE_{option.upper()}"
        for value in values:
            with mock.patch.dict(os.environ, {variable: value}):
                with kit.fails(ValueError, variable, repr(value), "accepted", accepted[variable]):
                    SluiceState()
    for name in ("CODEC", "SPARSE_CODEC"):
        with mock.patch.dict(os.environ, {f"SLUICE_{name}": "tyde"}):
            with kit.fails(ValueError, f"environment variable SLUICE_{name}", "tyde", "tide"):
                SluiceState()
            with kit.fails(ValueError, f"{name.lower()}: ", "tydes") as caught:
                SluiceState(**{name.lower(): "tydes"})
            assert "environment" not in caught.text.partition(";")[0], caught.text
    with mock.patch.dict(os.environ, {"SLUICE_SPARSE_CODEC": "tide"}):
        with kit.fails(ValueError, "environment variable SLUICE_SPARSE_CODEC", "'tide'", "f32"):
            SluiceState()


@case
def an_unknown_variable_warns(rank, size):
    with mock.patch.dict(os.environ, {"SLUICE_CODECS": "f32", "SLUICE_X": "1"}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            SluiceState()
    said = [str(w.message) for w in caught]
    assert len(said) == 2 and "SLUICE_CODECS" in said[0] and "SLUICE_X" in said[1], said
    assert all("SLUICE_CODEC," in text and "SLUICE_LIBRARY" in text for text in said), said


@case
def exclude_that_matches_nothing_is_refused(rank, size):
    with kit.fails(ValueError, "'wyde'", "matches no parameter", "accepted", "wide"):
        kit.attach(sheet(), "f32", exclude=["wyde", "wi*"])
    with kit.fails(ValueError, "'bias*'", "matches no parameter"):
        kit.attach(sheet(), "f32", exclude="wide,bias*")


@case
def feedback_that_would_diverge_or_lose_something_is_refused(rank, size):
    with kit.fails(ValueError, "'ef'", "thc:bits=1", "diverge", "accepted: feedback none", "fixed"):
        kit.attach(sheet(), "thc:bits=1", feedback="ef")
    for codec in ("bf16", "fp16", "thc:down=round"):
        with kit.fails(ValueError, "'ef'", codec, "rounded", "accepted: feedback none", "fixed"):
            kit.attach(sheet(), codec, feedback="ef")


@case
def nccl_is_for_parameters_on_a_gpu(rank, size):
    for more in ({}, {"carrier": "stream"}):
        with kit.fails(ValueError, "backend 'nccl'", "the parameters are on the CPU",
                       "accepted: gloo"):
            kit.attach(sheet(), backend="nccl", **more)


@case
def parameters_on_two_devices_are_refused(rank, size):
    devices = [torch.device("cuda", 1), torch.device("cpu"), torch.device("cuda", 1)]
    with kit.fails(ValueError, "parameters on cpu and cuda:1", "accepted: all", "on one device"):
        _placement.choose(SluiceState().settings, [], None, devices, alone=False)


# --- ranks that disagree ---

DIFFERENT = {
    "codec": ("tide:bits=4", "tide:bits=3"), "carrier": ("torch", "stream"),
    "feedback": ("none", "ef"), "exclude": ([], ["wide"]), "min_size": (0, 1),
    "start_step": (0, 7), "seed": (1, 2), "wave": (4096, 8192), "timeout": (SOON, SOON + 1),
    "check_every": (50, 51), "probe_every": (50, 0), "sparse_codec": ("lossless", "f32"),
}


def disagree(rank, size, option, usual, odd, *shown):
    """The text of the error, after looking for what it must name."""
    values = shown or (repr(usual), repr(odd))
    options = {"codec": "f32", "timeout": SOON, option: odd if rank == size - 1 else usual}
    with kit.fails(SluiceError, f"disagree on {option}", *values, f"rank {size - 1}",
                   "accepted") as caught:
        kit.attach(sheet(), **options)
    return caught.text


@case
def ranks_with_different_options_all_say_so(rank, size):
    said = {option: disagree(rank, size, option, *row) for option, row in DIFFERENT.items()}
    ddp, _ = kit.attached(kit.Sheet(WIDE), "f32", min_size=0)
    kit.check_same(kit.backward(ddp, kit.gradients(rank, 0, WIDE)),
                   kit.exact_means(size, 0, WIDE), "after all that")
    return said


@case
def ranks_with_equal_codecs_in_other_words_agree(rank, size):
    kit.attach(sheet(), "tide" if rank else "tide:bits=4")


@case
def every_rank_with_another_seed_is_named_with_its_own(rank, size):
    with kit.fails(SluiceError, *(f"{100 + r}" for r in range(size)),
                   *(f"rank {r}" for r in range(size) if size == 2)) as caught:
        kit.attach(sheet(), "f32", seed=100 + rank, timeout=SOON)
    return caught.text


@case
def ranks_with_different_versions_all_say_so(rank, size):
    version = "9.9.9" if rank == size - 1 else "0.0.1"
    with mock.patch.object(sluice, "__version__", version, create=True):
        with kit.fails(SluiceError, "version", "0.0.1", "9.9.9", f"rank {size - 1}") as caught:
            kit.attach(sheet(), "f32", timeout=SOON)
    return caught.text


@case
def ranks_with_different_parameters_all_say_so(rank, size):
    name = "odd" if rank == size - 1 else "usual"
    with kit.fails(SluiceError, "parameters", "odd", "usual", f"rank {size - 1}") as caught:
        kit.attach(kit.wrap(kit.Sheet({name: (33, 129)})), "f32", timeout=SOON)
    return caught.text


@case
def ranks_with_different_lanes_all_say_so(rank, size):
    return disagree(rank, size, "tracks", 3, 1)


@case
def ranks_disagree_where_one_would_be_refused(rank, size):
    with kit.fails(SluiceError, "feedback", "'none'", "'ef'", f"rank {size - 1}") as caught:
        kit.attach(sheet(), "thc:bits=1", timeout=SOON,
                   feedback="ef" if rank == size - 1 else "none")
    return caught.text


def tamper(steps, with_what):
    """Changes what the others get to compare."""
    digest = steps.digest_of_others
    steps.digest_of_others = lambda number: digest(number) ^ with_what(steps.step)


@case(sizes=(3,))
def a_rank_whose_result_differs_is_named_on_every_rank(rank, size):
    ddp, handle = kit.attached(kit.net(), "tide", min_size=0, check_every=2, tracks=3,
                               ddp={"bucket_cap_mb": 0.01})
    tamper(handle.state.steps, lambda step: int(rank == 1 and step == 2))
    kit.train(ddp, rank, 2)
    with kit.fails(Exception, "ranks disagree", "step 2", "of rank 1 differs") as caught:
        kit.train(ddp, rank, 1, first=2)
    with kit.fails(Exception, "failed before", "of rank 1 differs"):
        kit.train(ddp, rank, 1, first=3)
    return "of rank 1 differs" in caught.text


@case(sizes=(2,))
def where_no_majority_is_right_nobody_is_blamed(rank, size):
    ddp, handle = kit.attached(kit.Sheet(WIDE), "tide", min_size=0, check_every=1)
    tamper(handle.state.steps, lambda step: rank)
    with kit.fails(Exception, "ranks disagree", "of ranks 0, 1 differs", "no majority"):
        kit.backward(ddp, kit.gradients(rank, 0, WIDE))


@case
def results_are_compared_every_so_many_steps(rank, size):
    for every, checks in ((0, 0), (1, 5), (2, 3), (50, 1)):
        ddp, handle = kit.attached(kit.Sheet(WIDE), "tide", min_size=0, check_every=every)
        for step in range(5):
            kit.backward(ddp, kit.gradients(rank, step, WIDE))
        assert handle.stats()["checks"] == checks, (every, handle.stats())


# --- saved states ---


def saved(rank, steps=2, codec="tide:scales=previous", feedback="ef"):
    """(handle, state_dict() as it was a step ago), so that a load that is half done shows."""
    ddp, handle = kit.attached(kit.net(), codec, feedback=feedback, min_size=0)
    kit.train(ddp, rank, steps)
    state = handle.state_dict()
    kit.train(ddp, rank, 1, first=steps)
    return handle, state


def is_plain(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return type(value) in (str, int, float, bool, torch.Tensor)


@case
def a_saved_state_is_plain_values_that_weights_only_loads(rank, size):
    handle, state = saved(rank)
    assert is_plain(state), state
    assert state["names"] == [name for name, _ in kit.net().named_parameters()], state
    assert (state["step"], state["rank"], state["world"]) == (2, rank, size), state
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, **kit.WEIGHTS_ONLY)
    check_equal(loaded, state)
    handle.load_state_dict(loaded)
    check_equal(handle.state_dict(), state)


def check_equal(got, wanted):
    assert got.keys() == wanted.keys(), (got.keys(), wanted.keys())
    for key, value in wanted.items():
        if isinstance(value, dict):
            check_equal(got[key], value)
        elif isinstance(value, torch.Tensor):
            assert kit.same_bits(got[key], value), key
        else:
            assert got[key] == value, (key, got[key], value)


def gathered(state):
    """That of all ranks."""
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, state)
    return everybody


def refuses(handle, state, *parts):
    before = handle.state_dict()
    try:
        with kit.fails(ValueError, *parts):
            handle.load_state_dict(state)
    except BaseException as error:
        raise AssertionError(f"looking for {parts}: {error!r}") from error
    check_equal(handle.state_dict(), before)


@case
def a_state_of_another_feedback_rank_or_world_is_refused(rank, size):
    handle, state = saved(rank)
    other, bits = (rank + 1) % size, saved(rank, codec="tide:bits=3")
    refuses(handle, saved(rank, feedback="none")[1], "feedback", "'none'", "accepted", "'ef'")
    refuses(handle, {**state, "version": 99}, "version 99", "accepted")
    former = kit.contents(handle)
    for everybody in (gathered(state), [{**former, "rank": r} for r in range(size)]):
        refuses(handle, everybody[other], f"rank {other}", "accepted", f"rank {rank}")
        mixed = [dict(one) for one in everybody]
        mixed[other]["step"] += 1
        refuses(handle, mixed, "step")
        mixed[other]["step"], mixed[other]["world"] = mixed[rank]["step"], size + 1
        refuses(handle, mixed, "world", f"{size + 1}", "accepted")
    mixed = gathered(state)
    mixed[other] = gathered(bits[1])[other]
    refuses(handle, mixed, "'tide:bits=3", "accepted", "as of rank")
    refuses(handle, [{**former, "world": size + 1, "rank": r} for r in range(size)],
            f"ranks [{', '.join(map(str, range(size)))}] of {size + 1}", "accepted")


@case
def something_that_is_no_state_is_refused(rank, size):
    handle, state = saved(rank)
    for wrong in (5, "state", [], [5], {}, [None], (state, 5)):
        refuses(handle, wrong, "accepted")
    for one in (state, kit.contents(handle)):
        for key in one:
            refuses(handle, {name: value for name, value in one.items() if name != key}, key)


@case
def a_damaged_state_is_refused_and_changes_nothing(rank, size):
    handle, state = saved(rank)
    memory = state["memory"]
    for at in (0, 8, 20, len(memory) // 2, len(memory) - 1):
        flipped = memory.clone()
        flipped[at] ^= 1
        refuses(handle, {**state, "memory": flipped}, "saved bytes")
    for cut in (memory[:-1], memory[:7], memory.repeat(2), memory[1:]):
        refuses(handle, {**state, "memory": cut}, "saved bytes")
    for wrong in (memory.float(), memory[:0], 7, None):
        refuses(handle, {**state, "memory": wrong}, "accepted")
    for names in (state["names"][1:], [*state["names"], "stranger"]):
        refuses(handle, {**state, "names": names}, names[-1] if "stranger" in names else
                state["names"][0], "accepted: the state of this very model")
    for step in (-1, "3", None, 1.5):
        refuses(handle, {**state, "step": step}, "step", repr(step))


@case
def a_state_of_a_model_of_other_shapes_is_refused_by_name(rank, size):
    _, handle = kit.attached(kit.Sheet({"wide": (33, 129), "tall": (64, 70)}), "tide", min_size=0)
    _, other = kit.attached(kit.Sheet({"wide": (33, 129), "tall": (70, 64)}), "tide", min_size=0)
    refuses(handle, other.state_dict(), "(tall)", "70 x 64; accepted", "64 x 70")


@case
def a_damaged_state_of_version_2_is_refused_and_changes_nothing(rank, size):
    handle, _ = saved(rank)
    state = kit.contents(handle)
    name = next(reversed(state["residuals"]))
    for part in ("residuals", "states"):
        for damaged in (state[part][name][:-1], state[part][name].repeat(2), 7, None):
            refuses(handle, {**state, part: {**state[part], name: damaged}}, name, "accepted")
        refuses(handle, {**state, part: {**state[part], "stranger": state[part][name]}}, "stranger")
        fewer = {key: value for key, value in state[part].items() if key != name}
        refuses(handle, {**state, part: fewer}, name)
    spec = state["codecs"][name]
    model = torch.zeros(state["models"][spec].numel() + 1, dtype=torch.uint8)
    refuses(handle, {**state, "models": {**state["models"], spec: model}}, "model", "accepted")
    refuses(handle, {**state, "codecs": {**state["codecs"], "stranger": spec}}, "stranger")


@case
def a_state_that_never_ran_saves_and_loads(rank, size):
    fresh = SluiceState(codec="f32").state_dict()
    assert is_plain(fresh) and fresh["step"] == 0, fresh
    other = SluiceState(codec="f32")
    other.load_state_dict(fresh)
    check_equal(other.state_dict(), fresh)
    assert other.stats()["steps"] == 0 and other.stats()["ratio"] is None, other.stats()
    other.close()


@case
def a_state_that_was_loaded_and_not_yet_used_saves_what_it_loaded(rank, size):
    _, state = saved(rank)
    pending = SluiceState(codec="tide:scales=previous", feedback="ef", min_size=0)
    pending.load_state_dict(state)
    check_equal(pending.state_dict(), state)


@case
def the_plain_pair_resumes_from_a_saved_state(rank, size):
    """Also where compression starts after DDP rebuilt its buckets, in another order, and where the
    hook learns of the parameters bucket by bucket."""
    shapes = {name: (64, 64) for name in ("one", "two", "three")}
    order = ("two", "three", "one")  # of use, which is not the order of declaration

    def pair(saved, start_step, many):
        ddp = kit.wrap(kit.Sheet(shapes), bucket_cap_mb=0.015, find_unused_parameters=many)
        state = SluiceState(codec="tide:bits=2", feedback="ef", min_size=0, tracks=2,
                            start_step=start_step, timeout=kit.TIMEOUT)
        kit.launched_ranks.later(state.close)
        if saved is not None:
            state.load_state_dict(saved)
        ddp.register_comm_hook(state, hook)
        return ddp, state

    def steps(ddp, numbers):
        for number in numbers:
            given = kit.gradients(rank, number, shapes)
            got = kit.backward(ddp, {name: (k + 1) * given[name] for k, name in enumerate(order)})
        return got

    for start_step, many in ((0, False), (2, False), (0, True)):
        ddp, state = pair(None, start_step, many)
        steps(ddp, range(4))
        half = state.state_dict()
        wanted = steps(ddp, range(4, 6))
        ddp, state = pair(half, start_step, many)
        kit.check_same(steps(ddp, range(4, 6)), wanted, f"start_step {start_step}, many {many}")
