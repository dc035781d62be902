"""Cases on values: what arrives, in which bits, with which error, for every kind of gradient."""

import warnings

import ddp_kit as kit
import numpy as np
import torch
from ddp_kit import case

import sluice

SHAPES = {"wide": (33, 129), "large": (300, 250), "flat": (5000,), "little": (7, 5)}


def steps_are_exact(ddp, rank, size, shapes, steps, **options):
    for step in steps:
        got = kit.backward(ddp, kit.gradients(rank, step, shapes, **options))
        kit.check_same(got, kit.exact_means(size, step, shapes, **options), f"step {step}")


# --- which mean ---


@case
def f32_is_the_mean_in_order_of_rank(rank, size):
    ddp, _ = kit.attached(kit.Sheet(SHAPES), "f32", min_size=0)
    steps_are_exact(ddp, rank, size, SHAPES, range(3))


@case
def gradients_in_channels_last_keep_their_layout(rank, size):
    shape = (24, 16, 3, 3)
    model = kit.Sheet({"kernel": shape})
    model.kernel = torch.nn.Parameter(
        torch.zeros(shape).contiguous(memory_format=torch.channels_last))
    ddp, _ = kit.attached(model, "f32", min_size=0)
    every = [kit.gradient(r, 0, shape).contiguous(memory_format=torch.channels_last)
             for r in range(size)]
    for _ in range(2):
        got = kit.backward(ddp, {"kernel": every[rank]})["kernel"]
        assert got.is_contiguous(memory_format=torch.channels_last)
        kit.check_same({"kernel": got}, {"kernel": kit.mean_in_order_of_rank(every)}, "f32")


@case
def codecs_without_randomness_give_what_reduce_gives(rank, size):
    shapes = {name: shape for name, shape in SHAPES.items() if len(shape) > 1}
    for spec in ("fixed", "fixed:block=64", "bf16", "fp16", "f32"):
        ddp, _ = kit.attached(kit.Sheet(shapes), spec, min_size=0, wave=4096, seed=11)
        for step in range(2):
            got = kit.backward(ddp, kit.gradients(rank, step, shapes))
            for name, shape in shapes.items():
                every = [kit.gradient(r, step, shape).numpy() for r in range(size)]
                wanted = sluice.reduce(every, spec, seed=11, step=step)
                assert np.array_equal(got[name].numpy().view("u4"), wanted.view("u4")), (spec, name)


@case
def every_codec_trains_and_ranks_stay_equal(rank, size):
    ends = {}
    for name in sluice.codecs():
        ddp, handle = kit.attached(kit.net(), name, min_size=0, check_every=1)
        losses = kit.train(ddp, rank, 5)
        assert all(np.isfinite(losses)), (name, losses)
        assert handle.stats()["steps"] == 5 and handle.stats()["checks"] == 5, handle.stats()
        ends[name] = kit.bits(ddp)
    # On dense gradients blocks is fixed, and of two ranks the sum is rounded once either way.
    alike = {"blocks": "fixed", **({"lossless": "f32"} if size == 2 else {})}
    assert all(ends[one] == ends[other] for one, other in alike.items()), ends
    assert len(set(ends.values())) == len(ends) - len(alike), f"codecs that do the same: {ends}"
    return ends


@case
def seed_and_step_name_all_randomness(rank, size):
    ends = []
    for seed in (3, 3, 4):
        ddp, _ = kit.attached(kit.net(), "tide:bits=2", min_size=0, seed=seed)
        kit.train(ddp, rank, 3)
        ends.append(kit.bits(ddp))
    assert ends[0] == ends[1] != ends[2], ends
    return ends


def lost_share(rank, size, codec, dtype, steps=50, **options):
    """|given − delivered − kept| ÷ |given| of what is compressed, after so many steps."""
    shapes = {"wide": SHAPES["wide"], "tall": (70, 64)}
    ddp, handle = kit.attached(kit.Sheet(shapes, dtype), codec, min_size=0, feedback="ef",
                               **options)
    lost = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    given = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in shapes.items()}
    for step in range(steps):
        means = kit.backward(ddp, kit.gradients(rank, step, shapes, dtype=dtype))
        for name, shape in shapes.items():
            lost[name] -= size * means[name].double()
            given[name] += sum(kit.gradient(r, step, shape, dtype=dtype).double()
                               for r in range(size))
    for name, residual in kit.contents(handle)["residuals"].items():
        kept = residual.double().view(shapes[name])
        torch.distributed.all_reduce(kept)
        lost[name] += given[name] - kept
    norm = [sum(float(one.pow(2).sum()) for one in many.values())**0.5 for many in (lost, given)]
    return norm[0] / norm[1]


def _conserves(rank, size, dtype, codecs):
    """Gradients = size × means + residuals, summed over ranks and steps."""
    for codec in codecs:
        lost = lost_share(rank, size, codec, dtype)
        assert lost < 1e-5, (codec, dtype, lost)


@case
def feedback_loses_nothing_of_float32_gradients(rank, size):
    _conserves(rank, size, torch.float32, ("f32", "fixed", "blocks", "lossless", "thc:bits=3",
                                           "tide:bits=2,down=narrow"))
    lost = lost_share(rank, size, "tide:bits=2,down=narrow", torch.float32, carrier="stream")
    assert lost < 1e-5, lost


@case(sizes=(2,))
def feedback_loses_nothing_of_bf16_gradients(rank, size):
    kit.needs_torch(2, 0, "bfloat16 in Gloo, which DDP needs to start")
    _conserves(rank, size, torch.bfloat16, ("f32", "tide:bits=2,down=narrow"))


@case(sizes=(2,))
def feedback_loses_nothing_of_fp16_gradients(rank, size):
    _conserves(rank, size, torch.float16, ("f32", "tide:bits=2,down=narrow"))


# --- half precision, float64 ---


def _halves(rank, size, dtype):
    shapes = {name: shape for name, shape in SHAPES.items() if name != "large"}
    ddp, _ = kit.attached(kit.Sheet(shapes, dtype), "f32", min_size=0)
    for step in range(2):
        got = kit.backward(ddp, kit.gradients(rank, step, shapes, dtype=dtype))
        wanted = kit.exact_means(size, step, shapes, dtype=dtype)
        kit.check_same(got, {name: value.to(dtype) for name, value in wanted.items()}, "f32")
    options = {"min_size": 0, "seed": 5}
    half, _ = kit.attached(kit.Sheet(shapes, dtype), "tide", **options)
    whole, _ = kit.attached(kit.Sheet(shapes), "tide", **options)
    for step in range(3):
        given = kit.gradients(rank, step, shapes, dtype=dtype)
        got = kit.backward(half, given)
        wanted = kit.backward(whole, {name: value.float() for name, value in given.items()})
        kit.check_same(got, {name: value.to(dtype) for name, value in wanted.items()}, "tide")


@case
def bf16_gradients_are_rounded_once(rank, size):
    kit.needs_torch(2, 0, "bfloat16 in Gloo, which DDP needs to start")
    _halves(rank, size, torch.bfloat16)


@case
def fp16_gradients_are_rounded_once(rank, size):
    _halves(rank, size, torch.float16)


@case
def fp16_that_overflows_on_the_way_back_counts_as_not_finite(rank, size):
    """A mean within float32 but beyond fp16 is thrown away by scalers, so nothing was delivered."""
    shapes = {"wide": SHAPES["wide"]}
    ddp, handle = kit.attached(kit.Sheet(shapes, torch.float16), "tide:bits=2", min_size=0,
                               feedback="ef")
    kit.backward(ddp, kit.gradients(rank, 0, shapes, dtype=torch.float16))
    before = kit.contents(handle)["residuals"]
    given = kit.gradient(0, 1, shapes["wide"], dtype=torch.float16).sign() * 65504
    got = kit.backward(ddp, {"wide": given})["wide"]
    assert not torch.isfinite(got).all(), "nothing overflowed: the case shows nothing"
    kit.check_same(kit.contents(handle)["residuals"], before, "residuals")
    assert handle.stats()["skipped_steps"] == 1, handle.stats()


def _our_warnings(caught):
    return [str(w.message) for w in caught if "Sluice" in str(w.message)]


@case
def float64_travels_exactly_with_one_warning(rank, size):
    shapes = {"wide": (70, 64), "flat": (9,)}
    ddp, handle = kit.attached(kit.Sheet(shapes, torch.float64), "tide", min_size=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(3):
            # Whole numbers beyond float32's 24 bits: their sums are exact in float64 alone.
            every = [{name: (kit.gradient(r, step, shape) * 2**30).round().double()
                      for name, shape in shapes.items()} for r in range(size)]
            got = kit.backward(ddp, every[rank])
            wanted = {name: sum(one[name] for one in every) / size for name in shapes}
            kit.check_same(got, wanted, f"step {step}")
    said = _our_warnings(caught)
    assert len(said) == 1 and "torch.float64" in said[0], said
    assert handle.stats()["exact_buckets"] >= 3, handle.stats()


@case
def float64_beside_float32_leaves_it_compressed(rank, size):
    ddp, handle = kit.attached(torch.nn.ModuleList([
        kit.Sheet({"a": (80, 80)}), kit.Sheet({"b": (80, 80)}, torch.float64)]), "tide")
    ddp.module.forward = lambda one, other: ddp.module[0](one) + ddp.module[1](other)
    shapes = {"a": (80, 80)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2):
            every = [kit.gradient(r, step, (80, 80)).double() for r in range(size)]
            got = kit.backward(ddp, kit.gradients(rank, step, shapes), {"b": every[rank]})
            bound = size * 2.0**-52 * sum(one.abs() for one in every)
            assert ((got["1.b"] - sum(every) / size).abs() <= bound).all()
            exact = kit.exact_means(size, step, shapes)["a"]
            assert not kit.same_bits(got["0.a"], exact)
            assert kit.relative_error(got["0.a"], exact) < 0.05
    assert len(_our_warnings(caught)) == 1, _our_warnings(caught)
    assert handle.stats()["steps"] == 2, handle.stats()


# --- Inf and NaN ---


@case
def what_is_not_finite_arrives_everywhere_at_the_same_coordinates(rank, size):
    shapes = {"large": SHAPES["large"]}
    for name in sluice.codecs():
        if name == "lhc":
            continue  # Its buckets of floats keep nothing apart.
        ddp, _ = kit.attached(kit.Sheet(shapes), name, min_size=0)
        every = [kit.gradient(r, 0, shapes["large"]) for r in range(size)]
        every[0].view(-1)[[0, 7]] = torch.tensor([np.inf, -np.inf])
        every[size - 1].view(-1)[[7, 40_000, 74_999]] = torch.tensor([np.inf, np.nan, -np.inf])
        got = kit.backward(ddp, {"large": every[rank]})["large"]
        wanted = kit.mean_in_order_of_rank(every)
        for is_so in (torch.isnan, torch.isposinf, torch.isneginf):
            assert torch.equal(is_so(got), is_so(wanted)), (name, is_so.__name__)
        calm = torch.isfinite(wanted)
        assert kit.relative_error(got[calm], wanted[calm]) < 0.05, name


@case
def a_step_that_is_not_finite_leaves_residuals_and_the_error_as_they_were(rank, size):
    shapes = {"wide": SHAPES["wide"]}
    ddp, handle = kit.attached(kit.Sheet(shapes), "tide", min_size=0, feedback="ef", probe_every=1)
    kit.backward(ddp, kit.gradients(rank, 0, shapes))
    before, error = kit.contents(handle)["residuals"], handle.stats()["vnmse"]
    assert 0 < error < 0.1, error
    given = kit.gradients(rank, 1, shapes)
    if rank == size - 1:
        given["wide"][:, 3] = np.inf  # in every block
    kit.backward(ddp, given)
    kit.check_same(kit.contents(handle)["residuals"], before, "residuals")
    assert handle.stats()["skipped_steps"] == 1 and handle.stats()["steps"] == 2, handle.stats()
    assert handle.stats()["vnmse"] == error, (handle.stats()["vnmse"], error)
    kit.backward(ddp, kit.gradients(rank, 2, shapes))
    assert error != handle.stats()["vnmse"] < 0.1, (handle.stats()["vnmse"], error)


# --- what is compressed, and when ---


@case
def exclude_min_size_and_vectors_travel_exactly(rank, size):
    shapes = {"head_weight": (80, 80), "body_weight": (80, 80), "tail_weight": (90, 70),
              "tail_more": (70, 90), "norm": (8000,), "small": (49, 41), "above": (40, 50)}
    ddp, _ = kit.attached(kit.Sheet(shapes), "tide", exclude=["head_weight", "tail_*"],
                          min_size=2000)
    for step in range(2):
        got = kit.backward(ddp, kit.gradients(rank, step, shapes))
        wanted = kit.exact_means(size, step, shapes)
        exact = {name for name in shapes if kit.same_bits(got[name], wanted[name])}
        assert exact == set(shapes) - {"body_weight", "above", "small"}, exact
        for name in set(shapes) - exact:
            assert kit.relative_error(got[name], wanted[name]) < 0.05, name


@case
def parameters_of_fewer_elements_than_min_size_travel_exactly(rank, size):
    shapes = {"below": (9, 111), "at": (10, 100), "flat": (2000,)}
    ddp, _ = kit.attached(kit.Sheet(shapes), "tide:bits=2", min_size=1000)
    got = kit.backward(ddp, kit.gradients(rank, 0, shapes))
    wanted = kit.exact_means(size, 0, shapes)
    assert [kit.same_bits(got[name], wanted[name]) for name in shapes] == [True, False, True]


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.submodule = torch.nn.Linear(70, 70, bias=False)
        self.module = torch.nn.ModuleDict({"weight": torch.nn.Linear(70, 70, bias=False)})
        self.weight = torch.nn.Linear(70, 70, bias=False)

    def forward(self, inputs):
        return self.weight(self.module["weight"](self.submodule(inputs)))


@case
def exclude_takes_the_names_that_named_parameters_gives(rank, size):
    names = [name for name, _ in Nested().named_parameters()]
    for name in names:
        ddp, handle = kit.attached(Nested(), "tide", exclude=[name], min_size=0, feedback="ef")
        ddp(torch.ones(3, 70)).sum().backward()
        assert set(kit.contents(handle)["residuals"]) == set(names) - {name}, name


@case
def steps_before_start_step_travel_exactly(rank, size):
    shapes = {"wide": SHAPES["wide"]}
    ddp, handle = kit.attached(kit.Sheet(shapes), "tide", min_size=0, start_step=3)
    steps_are_exact(ddp, rank, size, shapes, range(3))
    assert handle.stats()["steps"] == 3
    got = kit.backward(ddp, kit.gradients(rank, 3, shapes))["wide"]
    assert not kit.same_bits(got, kit.exact_means(size, 3, shapes)["wide"])
