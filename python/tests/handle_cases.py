"""Cases on what a handle and a state tell, take and end: figures, detaching, the plain pair, the
environment."""

import os
import warnings
from unittest import mock

import ddp_kit as kit
import numpy as np
import torch
from ddp_kit import case
from value_cases import SHAPES, steps_are_exact

import sluice.torch
from sluice.torch import SluiceState, hook

STATS = {"codec", "codecs", "steps", "buckets", "gradient_bytes", "skipped_steps", "checks",
         "exact_buckets",
         "sparse_buckets", "sparse_rows", "bytes_sent", "bytes_received", "collectives",
         "retransmits", "ratio", "seconds", "device", "vnmse", "silent_blocks", "probes", "layers",
         "interval"}
TURNS = 32  # probes until every block had its turn


@case
def stats_count_bytes_and_measure_the_error_of_every_layer(rank, size):
    """fp16 rounds the same gradients in the same way in every step, so that after all turns the
    figures are the true ones; and below its least number it leaves a layer silent."""
    scales = {"large": 1.0, "tiny": 1e-6, "silent": 1e-12, "huge": 1e4}
    shapes = {"large": (300, 250), "tiny": (64, 64), "silent": (65, 70), "huge": (33, 129)}
    given = [{name: kit.gradient(r, 0, shape) * scales[name] for name, shape in shapes.items()}
             for r in range(size)]
    ddp, handle = kit.attached(kit.Sheet(shapes), "fp16", min_size=0, probe_every=1, wave=4096,
                               ddp={"bucket_cap_mb": 0.01})
    for _ in range(TURNS):
        got = kit.backward(ddp, given[rank])
    stats = handle.stats()
    assert set(stats) == STATS, sorted(set(stats) ^ STATS)
    assert set(stats["seconds"]) == {"encode", "network", "combine", "decode"}
    assert all(seconds >= 0 for seconds in stats["seconds"].values())
    count = sum(np.prod(shape) for shape in shapes.values())
    assert stats["steps"] == TURNS < stats["buckets"], stats
    assert stats["gradient_bytes"] == 4 * TURNS * count, stats
    errors, energies = {}, {}
    for name in shapes:
        exact = kit.mean_in_order_of_rank([one[name] for one in given]).double()
        errors[name] = float((got[name].double() - exact).pow(2).sum())
        energies[name] = float(exact.pow(2).sum())
        layer = stats["layers"][name]
        assert abs(layer["vnmse"] / (errors[name] / energies[name]) - 1) < 1e-6, (name, layer)
        assert layer["silent_blocks"] == (1.0 if name == "silent" else 0.0), (name, layer)
        assert layer["probes"] >= np.prod(shapes[name]) / 256, (name, layer)
    whole = sum(errors.values()) / sum(energies.values())
    assert abs(stats["vnmse"] / whole - 1) < 1e-6, (stats["vnmse"], whole)
    blocks = {name: -(-int(np.prod(shape)) // 256) for name, shape in shapes.items()}
    silent = blocks["silent"] / sum(blocks.values())
    assert abs(stats["silent_blocks"] - silent) < 1e-12, (stats["silent_blocks"], silent)
    # Lanes add up in any order, so the last digits of the energies may differ.
    return {name: {key: float(f"{value:.6g}") for key, value in layer.items()}
            for name, layer in stats["layers"].items()}


@case
def stats_of_the_interval_begin_anew_with_every_call(rank, size):
    shapes = {"wide": SHAPES["wide"], "large": SHAPES["large"]}
    ddp, handle = kit.attached(kit.Sheet(shapes), "tide:bits=4", probe_every=2, min_size=0)
    none = handle.stats()
    assert none["vnmse"] is none["interval"]["vnmse"] is none["silent_blocks"] is None, none
    assert set(none["layers"]) == set(shapes)
    kit.backward(ddp, kit.gradients(rank, 0, shapes))
    first = handle.stats()
    assert all(layer["probes"] for layer in first["layers"].values()), "every probe has them all"
    assert first["interval"]["layers"] == first["layers"], first
    kit.backward(ddp, kit.gradients(rank, 1, shapes))
    still = handle.stats()
    assert still["interval"] == none["interval"], "no probe in this step"
    assert still["vnmse"] == first["vnmse"], "of all steps so far"
    zeros = {name: torch.zeros(shape) for name, shape in shapes.items()}
    zeros["wide"] += 1
    kit.backward(ddp, zeros)
    last = handle.stats()["interval"]
    assert last["layers"]["large"]["vnmse"] is None, "there was nothing in it"
    assert last["layers"]["large"]["silent_blocks"] is None, last
    assert last["layers"]["wide"]["vnmse"] is not None, last


@case
def bytes_sent_are_what_the_codec_promises(rank, size):
    count, steps = 65536 * 3, 2
    shapes = {"only": (count // 256, 256)}
    for spec, up, down in (("tide:bits=4", 4, 5), ("bf16", 16, 16), ("f32", 32, 32)):
        ddp, handle = kit.attached(kit.Sheet(shapes), spec, check_every=0, probe_every=0)
        for step in range(steps):
            kit.backward(ddp, kit.gradients(rank, step, shapes))
        sent, ratio = handle.stats()["bytes_sent"], handle.stats()["ratio"]
        # A rank sends all shards but its own, then the sum of its own to all others. A shard is at
        # most a block of 1024 beyond an even share; 2 % for headers, tide's maxima in addition.
        share = steps * (size - 1) / size * (up + down) / 8
        assert 0.9 * share * count <= sent <= 1.1 * share * (count + 1024 * size), (spec, sent)
        ring = steps * 8 * count * (size - 1) / size
        assert abs(ratio - ring / sent) < 1e-9 * ratio, (ratio, ring / sent)


@case
def after_detach_gradients_travel_uncompressed(rank, size):
    ddp, handle = kit.attached(kit.Sheet(SHAPES), "tide", min_size=0, feedback="ef", tracks=3)
    for step in range(2):
        kit.backward(ddp, kit.gradients(rank, step, SHAPES))
    handle.detach()
    stats = handle.stats()
    assert not kit.lane_threads()
    for step in range(2, 5):
        # Multiples of the number of ranks, so that any order of adding and dividing is exact.
        every = [{name: (kit.gradient(r, step, shape) * 100).round() * size
                  for name, shape in SHAPES.items()} for r in range(size)]
        got = kit.backward(ddp, every[rank])
        wanted = {name: sum(one[name] for one in every) / size for name in SHAPES}
        assert all(torch.equal(got[name], wanted[name]) for name in SHAPES), f"step {step}"
    assert handle.stats()["bytes_sent"] == stats["bytes_sent"] and handle.stats()["steps"] == 2
    handle.detach()  # does nothing


@case
def detach_gives_process_groups_and_all_threads_back(rank, size):
    """Each process group of Gloo has threads of its own."""
    ddp = kit.wrap(kit.net())
    before = kit.thread_count()
    handle = kit.attach(ddp, "tide", tracks=4)
    kit.train(ddp, rank, 1)
    during = kit.thread_count()
    handle.detach()
    after = kit.thread_count()
    assert during >= before + 4 and after <= before, (before, during, after)


@case
def the_plain_pair_gives_the_bits_that_attach_gives(rank, size):
    ddp, _ = kit.attached(kit.net(), "fixed", min_size=0, ddp={"bucket_cap_mb": 0.05})
    kit.train(ddp, rank, 4)
    pair = kit.wrap(kit.net(), bucket_cap_mb=0.05)
    state = SluiceState(codec="fixed", min_size=0, tracks=2, timeout=kit.TIMEOUT)
    kit.launched_ranks.later(state.close)
    pair.register_comm_hook(state, hook)
    kit.train(pair, rank, 4)
    assert kit.bits(pair) == kit.bits(ddp)
    assert state.stats()["steps"] == 4 and state.stats()["bytes_sent"] > 0, state.stats()
    return kit.bits(pair)


@case
def the_plain_pair_adds_tensors_only_between_steps(rank, size):
    """sluice_memory_add while buckets travel would move what they work on."""
    shapes = {f"part_{k}": (64, 64) for k in range(12)}
    # A bucket each, from the first step on.
    pair = kit.wrap(kit.Sheet(shapes), bucket_cap_mb=0.015, find_unused_parameters=True)
    state = SluiceState(codec="tide", min_size=0, tracks=2, timeout=kit.TIMEOUT)
    kit.launched_ranks.later(state.close)
    pair.register_comm_hook(state, hook)
    add, seen = sluice.torch._native.Memory.add, []

    def watched_add(memory, *arguments):
        seen.append(state.steps.is_busy())
        add(memory, *arguments)

    with mock.patch.object(sluice.torch._native.Memory, "add", watched_add):
        kit.backward(pair, kit.gradients(rank, 0, shapes))
    assert len(seen) == 12 and not any(seen), f"buckets on their way when tensors came: {seen}"


@case
def the_environment_is_honoured_and_arguments_beat_it(rank, size):
    said = {"SLUICE_CODEC": "f32", "SLUICE_FEEDBACK": "none", "SLUICE_EXCLUDE": "wide, l*",
            "SLUICE_MIN_SIZE": "17", "SLUICE_START_STEP": "2", "SLUICE_SEED": "99",
            "SLUICE_TRACKS": "3", "SLUICE_WAVE": "5000", "SLUICE_TIMEOUT": "33.5",
            "SLUICE_CHECK_EVERY": "4", "SLUICE_PROBE_EVERY": "0", "SLUICE_BACKEND": "gloo",
            "SLUICE_SPARSE_CODEC": "f32", "SLUICE_CARRIER": "stream",
            "SLUICE_AGGREGATORS": kit.aggregators_of_rank_0(rank)}
    wanted = {"codec": "f32", "feedback": "none", "exclude": ("wide", "l*"), "min_size": 17,
              "start_step": 2, "seed": 99, "tracks": 3, "wave": 5000, "timeout": 33.5,
              "check_every": 4, "probe_every": 0, "backend": "gloo", "carrier": "stream",
              "sparse_codec": "f32",
              "aggregators": tuple(said["SLUICE_AGGREGATORS"].split(","))}
    assert {row[0] for row in sluice.torch.environment_table()} == set(said)
    with mock.patch.dict(os.environ, said), warnings.catch_warnings():
        warnings.simplefilter("error")
        ddp = kit.wrap(kit.Sheet(SHAPES))
        handle = sluice.torch.attach(ddp)
        kit.launched_ranks.later(handle.detach)
        got = vars(handle.state.settings)
        assert got == wanted, {name: got[name] for name in wanted if got[name] != wanted[name]}
        assert len(kit.lane_threads()) == 3
        steps_are_exact(ddp, rank, size, SHAPES, range(4))
        given = {"codec": "tide", "feedback": "ef", "exclude": [], "min_size": 0, "start_step": 0,
                 "seed": 1, "tracks": 1, "wave": 4096, "timeout": 20.0, "check_every": 1,
                 "probe_every": 1}
        other = kit.wrap(kit.Sheet(SHAPES))
        got = vars(kit.attach(other, **given).state.settings)
        given["exclude"] = ()
        assert {name: got[name] for name in given} == given, got
        wide = kit.backward(other, kit.gradients(rank, 0, SHAPES))["wide"]
        assert not kit.same_bits(wide, kit.exact_means(size, 0, SHAPES)["wide"])


@case
def an_empty_variable_is_one_that_is_not_set(rank, size):
    with mock.patch.dict(os.environ, {"SLUICE_CODEC": "", "SLUICE_TRACKS": ""}):
        settings = SluiceState().settings
    default = {row[0]: row[1] for row in sluice.torch.environment_table()}
    assert settings.codec == default["SLUICE_CODEC"], settings
    assert settings.tracks is None and default["SLUICE_TRACKS"] == "auto", settings
