"""Cases on checkpoints: what a job saves, and what another job makes of it.

They meet in the folder that the environment variable RESUME_FOLDER names.
"""

import os
import pathlib

import ddp_kit as kit
import torch

STEPS = 20
CAP = {"bucket_cap_mb": 0.02}
SETUPS = {
    "ef": {"codec": "tide:bits=3", "feedback": "ef", "min_size": 0},
    "previous": {"codec": "tide:scales=previous", "feedback": "ef", "min_size": 0},
    "dgc": {"codec": "tide:bits=3", "feedback": "dgc:momentum=0.5", "min_size": 0},
    "forgetful": {"codec": "tide:scales=previous", "feedback": "none", "min_size": 0},
}


def folder():
    return pathlib.Path(os.environ["RESUME_FOLDER"])


def make(setup, **options):
    """DDP model with Adam, whose state must survive too; and a list of the buckets of each step."""
    ddp, handle = kit.attached(kit.net(), ddp=CAP, **SETUPS[setup], **options)
    seen, submit = [], handle.state.submit

    def watched(bucket):
        if not seen or seen[-1][-1] is None:
            seen.append([])
        seen[-1].append([tuple(p.shape) for p in bucket.parameters()])
        if bucket.is_last():
            seen[-1].append(None)
        return submit(bucket)

    handle.state.submit = watched
    return ddp, handle, torch.optim.Adam(ddp.parameters(), lr=0.01), seen


def check_rebuilt(seen):
    assert len(seen) > 2 and seen[0] != seen[1] and seen[1] == seen[-1], seen[:3]
    assert len(seen[1]) > 3, f"few buckets: {seen[1]}"


def ends(ddp, optimizer):
    """Digests of parameters and of the optimizer's tensors."""
    moments = {f"{index}.{name}": value for index, state in optimizer.state_dict()["state"].items()
               for name, value in state.items() if isinstance(value, torch.Tensor)}
    assert moments
    return [kit.bits(ddp), kit.bits(moments)]


def save(ddp, handle, optimizer, name, rank):
    """In two files: weights_only of an old torch loads no optimizer."""
    torch.save({"model": ddp.module.state_dict(), "optimizer": optimizer.state_dict()},
               folder() / f"{name}-{rank}.pt")
    torch.save(handle.state_dict(), folder() / f"{name}-{rank}-sluice.pt")
    torch.save(kit.contents(handle), folder() / f"{name}-{rank}-former.pt")


def load(name, rank):
    saved = torch.load(folder() / f"{name}-{rank}.pt",
                       **(kit.WEIGHTS_ONLY if kit.TORCH >= (2, 0) else {}))
    for part in ("sluice", "former"):
        saved[part] = torch.load(folder() / f"{name}-{rank}-{part}.pt", **kit.WEIGHTS_ONLY)
    return saved


def whole_and_half(rank, size):
    """20 steps in one go; and 10 steps, then a checkpoint."""
    ends_of = {}
    for setup in SETUPS:
        ddp, _, optimizer, seen = make(setup)
        kit.train(ddp, rank, STEPS, optimizer)
        check_rebuilt(seen)
        ends_of[setup] = ends(ddp, optimizer)
        ddp, handle, optimizer, seen = make(setup)
        kit.train(ddp, rank, STEPS // 2, optimizer)
        check_rebuilt(seen)
        save(ddp, handle, optimizer, setup, rank)
    return ends_of


def _second_half(rank, with_sluice_state):
    ends_of = {}
    for setup in SETUPS:
        ddp, handle, optimizer, seen = make(setup)
        saved = load(setup, rank)
        ddp.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        if with_sluice_state:
            handle.load_state_dict(saved["sluice"])
            assert handle.state.step == STEPS // 2, handle.state.step
        kit.train(ddp, rank, STEPS // 2, optimizer, first=STEPS // 2)
        check_rebuilt(seen)
        ends_of[setup] = ends(ddp, optimizer)
    return ends_of


def other_half(rank, size):
    """10 steps on from the checkpoint, in a process that has seen nothing else."""
    return _second_half(rank, with_sluice_state=True)


def half_without_sluice_state(rank, size):
    """The same without Sluice's part of the checkpoint, which must end elsewhere."""
    return _second_half(rank, with_sluice_state=False)


# --- another number of ranks ---


def save_for_another_world(rank, size):
    ends_of = {}
    for setup in ("ef", "dgc"):
        ddp, handle, optimizer, _ = make(setup)
        kit.train(ddp, rank, 5, optimizer)
        save(ddp, handle, optimizer, f"{setup}-of-{size}", rank)
        ends_of[setup] = ends(ddp, optimizer)
    return ends_of


def memories(state):
    """All that feedback keeps, by name of the memory and of the parameter."""
    return {"residual": state["residuals"], **state["memories"]}


def _load_world(rank, size, old):
    """From states of today and from those of version 2."""
    today, former = (_load_parts(rank, size, old, part) for part in ("sluice", "former"))
    assert today == former
    return today


def _load_parts(rank, size, old, part):
    ends_of = {}
    for setup, count in (("ef", 1), ("dgc", 2)):
        ddp, handle, optimizer, _ = make(setup)
        everybody = [load(f"{setup}-of-{old}", r) for r in range(old)]
        ddp.module.load_state_dict(everybody[0]["model"])
        optimizer.load_state_dict(everybody[0]["optimizer"])
        handle.load_state_dict([one[part] for one in everybody])
        before = [memories(one["former"]) for one in everybody]
        assert len(before[0]) == count, before[0].keys()
        for which, mine in memories(kit.contents(handle)).items():
            check_sum([one[which] for one in before], mine, old)
        assert all(value.any() for one in before for value in one["residual"].values())
        assert handle.state.step == 5, handle.state.step
        kit.train(ddp, rank, 5, optimizer, first=5)
        assert handle.stats()["steps"] == 5 and handle.state.step == 10
        ends_of[setup] = ends(ddp, optimizer)
    return ends_of


def check_sum(before, mine, old):
    """Over all ranks it is what it was."""
    for name, value in mine.items():
        total = value.double()
        torch.distributed.all_reduce(total)
        wanted = sum(one[name].double() for one in before)
        # A rank adds at most old others in float32: a rounding each, of at most the sum of sizes.
        bound = old * 2.0**-24 * sum(one[name].double().abs() for one in before)
        assert ((total - wanted).abs() <= bound).all(), name


def from_4_to_2(rank, size):
    return _load_world(rank, size, 4)


def from_2_to_3(rank, size):
    _load_where_less_is_compressed(rank, 2)
    return _load_world(rank, size, 2)


def _load_where_less_is_compressed(rank, old):
    """What is exact now pays what it owes. All ranks make the same of it, also the one that takes
    nobody's residuals over."""
    ddp, handle, optimizer, _ = make("ef", exclude=["0.weight"])
    everybody = [load(f"ef-of-{old}", r) for r in range(old)]
    handle.load_state_dict([one["sluice"] for one in everybody])
    owed = kit.contents(handle)["residuals"]["0.weight"]
    assert owed.any() == (rank < old), rank
    check_sum([one["former"]["residuals"] for one in everybody], {"0.weight": owed}, old)
    kit.train(ddp, rank, 2, optimizer, first=5)
    assert not kit.contents(handle)["residuals"]["0.weight"].any()
    handle.detach()


# --- an earlier Sluice ---


def from_the_first_edition(rank, size):
    """A state of rank 0 of 2 that Sluice saved when tide had no floor and rounded its sums."""
    saved = torch.load(pathlib.Path(__file__).with_name("data") / "first_edition.pt",
                       **kit.WEIGHTS_ONLY)
    ddp, handle = kit.attached(torch.nn.Linear(32, 64, bias=False), codec="tide:bits=2",
                               feedback="ef", min_size=0)
    handle.load_state_dict({**saved, "rank": rank})
    assert handle.state.step == 3, handle.state.step
    now = kit.contents(handle)
    assert now["codecs"] == {"weight": "tide:bits=2,down=narrow"}, now["codecs"]
    assert saved["codec"] == "tide:bits=2", saved["codec"]
    assert saved["residuals"].keys() == now["residuals"].keys() == {"weight"}
    assert torch.equal(now["residuals"]["weight"], saved["residuals"]["weight"])
    assert torch.equal(now["models"][now["codecs"]["weight"]], saved["model"])
    ddp(torch.ones(4, 32) * (rank + 1)).sum().backward()
    assert handle.state.step == 4, handle.state.step
    return kit.bits({"grad": ddp.module.weight.grad})


SHAPES = {"head": (12, 20), "embed": (25, 10), "exact": (8, 8), "bias": (8,)}
CODECS = {"head": "tide:scales=previous", "embed": "tide:bits=2", "exact": "f32"}


def given(rank, step):
    """Gradients without a random generator."""
    return {name: ((torch.arange(torch.Size(shape).numel()) * (37 + number) + 11 * rank + 5 * step)
                   % 101 - 50).view(shape) / 64 for number, (name, shape) in
            enumerate(SHAPES.items())}


def from_the_second_edition(rank, size):
    """States of both ranks after 3 steps, with what feedback keeps by name; and the means of the
    step after them, which the same Sluice gave."""
    editions = torch.load(pathlib.Path(__file__).with_name("data") / "second_edition.pt",
                          **kit.WEIGHTS_ONLY)
    for feedback, edition in editions.items():
        mine = edition["states"][rank]
        for saved in (mine, edition["states"]):
            ddp, handle = kit.attached(kit.Sheet(SHAPES), CODECS, feedback=feedback, min_size=0)
            handle.load_state_dict(saved)
            now = kit.contents(handle)
            assert now["codecs"] == mine["codecs"] and now["step"] == 3, now
            assert list(now["memories"]) == ["velocity"] * feedback.startswith("dgc"), feedback
            for part in ("residuals", "states", "models"):
                kit.check_same(now[part], mine[part], f"{part}, {feedback}")
            for name, values in mine["memories"].items():
                assert all(one.any() for one in values.values()), "shows nothing"
                kit.check_same(now["memories"][name], values, f"{name}, {feedback}")
            kit.check_same(kit.backward(ddp, given(rank, 3)), edition["means"], feedback)
        # Under another codec, what feedback kept is there all the same.
        _, other = kit.attached(kit.Sheet(SHAPES), "f32", feedback=feedback, min_size=0)
        other.load_state_dict(mine)
        kit.check_same(kit.contents(other)["residuals"], mine["residuals"], feedback)
