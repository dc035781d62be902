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


def save_with_dcp(folder: str) -> None:
    ddp_model, rank = make_model(), dist.get_rank()
    handle = sluice.torch.attach(ddp_model, feedback="ef")
    train(ddp_model, 2)

    dcp.save({"model": ddp_model.state_dict(), f"sluice-{rank}": handle}, checkpoint_id=folder)

    saved, ddp_model = handle.state_dict(), make_model()
    handle = sluice.torch.attach(ddp_model, feedback="ef")

    weights = ddp_model.state_dict()
    dcp.load({"model": weights, f"sluice-{rank}": handle}, checkpoint_id=folder)
    ddp_model.load_state_dict(weights)

    loaded = handle.state_dict()
    assert loaded["step"] == 2, loaded["step"]
    assert torch.equal(loaded["residuals"]["weight"], saved["residuals"]["weight"])
    assert saved["residuals"]["weight"].norm() > 0


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
    if hasattr(dcp, "save"):  # torch 2.2 and later
        save_with_dcp(sys.argv[1])
    turn_off()
    refuse()
    if dist.get_rank() == 0:
        print("snippets are fine")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
