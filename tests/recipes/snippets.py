"""The short pieces of docs/pytorch.md that no example has, each run.

    torchrun --nproc-per-node 2 tests/recipes/snippets.py FOLDER
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.nn.parallel import DistributedDataParallel

import sluice.torch


def make_model() -> DistributedDataParallel:
    torch.manual_seed(0)
    return DistributedDataParallel(torch.nn.Linear(256, 256))


def train(ddp_model, steps: int) -> None:
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        ddp_model(torch.randn(8, 256)).pow(2).mean().backward()
        optimizer.step()


def register_hook() -> None:
    ddp_model = make_model()

    from sluice.torch import SluiceState, hook

    state = SluiceState(codec="tide:bits=4")
    ddp_model.register_comm_hook(state, hook)

    train(ddp_model, 2)
    assert state.stats()["steps"] == 2, state.stats()


def train_embeddings() -> None:
    torch.manual_seed(0)

    table = torch.nn.EmbeddingBag(100_000, 64, sparse=True)
    top = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    ddp_model = DistributedDataParallel(torch.nn.Sequential(table, top))
    handle = sluice.torch.attach(ddp_model, codec="tide:bits=4")
    optimizers = [torch.optim.SparseAdam(table.parameters()), torch.optim.Adam(top.parameters())]

    before = table.weight.detach().clone()
    draws = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        rows = torch.randint(100_000, (8, 4), generator=draws)
        ddp_model(rows).pow(2).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    stats = handle.stats()
    assert stats["sparse_buckets"] == 2 and 64 < stats["sparse_rows"] <= 128, stats
    assert stats["bytes_sent"] < 200_000, stats
    assert 0 < (table.weight != before).any(1).sum() <= 128


def save_with_dcp(folder: str) -> None:
    ddp_model, rank = make_model(), dist.get_rank()
    handle = sluice.torch.attach(ddp_model, feedback="ef")
    train(ddp_model, 2)

    dcp.save({"model": ddp_model.state_dict(), f"sluice-{rank}": handle}, checkpoint_id=folder)

    saved, ddp_model = handle.state_dict(), make_model()
    handle = sluice.torch.attach(ddp_model, feedback="ef")
    fresh = handle.state_dict()

    weights = ddp_model.state_dict()
    dcp.load({"model": weights, f"sluice-{rank}": handle}, checkpoint_id=folder)
    ddp_model.load_state_dict(weights)

    loaded = handle.state_dict()
    assert loaded["step"] == 2, loaded["step"]
    assert torch.equal(loaded["memory"], saved["memory"])
    assert not torch.equal(saved["memory"], fresh["memory"])


def look_at_the_error() -> None:
    ddp_model = make_model()
    handle = sluice.torch.attach(ddp_model, codec="tide:bits=4")
    train(ddp_model, 2)

    stats = handle.stats()
    layers = stats["layers"]
    worst = max(layers, key=lambda name: layers[name]["vnmse"] or 0)
    print(f"error {stats['vnmse']}, of the last steps {stats['interval']['vnmse']}")
    print(f"worst is {worst}: {layers[worst]['vnmse']}, silent {layers[worst]['silent_blocks']}")

    assert 0 < layers[worst]["vnmse"] < 0.1 and layers[worst]["silent_blocks"] == 0, stats


def choose_codecs() -> None:
    ddp_model = DistributedDataParallel(torch.nn.ModuleDict({
        "embed": torch.nn.Linear(64, 96), "head": torch.nn.Linear(96, 64)}))
    handle = sluice.torch.attach(ddp_model, codec={"embed.*": "lossless", "*": "tide:bits=4"})
    handle.choose("*.weight", "tide:bits=3")
    assert set(handle.stats()["codecs"]) == {"tide:bits=3,down=round", "f32"}, handle.stats()


def turn_off() -> None:
    ddp_model = make_model()
    handle = sluice.torch.attach(ddp_model, exclude=["bias"], start_step=1)
    train(ddp_model, 2)
    handle.detach()
    train(ddp_model, 2)
    assert handle.stats()["steps"] == 2, handle.stats()


def refuse() -> None:
    try:
        sluice.torch.attach(torch.nn.Linear(8, 8))
    except TypeError as error:
        assert "accepted: a torch.nn.parallel.DistributedDataParallel model" in str(error), error


def main() -> None:
    dist.init_process_group("gloo")
    register_hook()
    train_embeddings()
    if hasattr(dcp, "save"):  # torch 2.2 and later
        save_with_dcp(sys.argv[1])
    look_at_the_error()
    choose_codecs()
    turn_off()
    refuse()
    if dist.get_rank() == 0:
        print("snippets are fine")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
