"""DDP with checkpoints: model, optimizer and Sluice's state, which every rank has its own of.

    torchrun --nproc-per-node 2 tests/recipes/checkpoint.py FOLDER STEPS

Trains to STEPS, from the last checkpoint in FOLDER if there is one, and leaves one every 4 steps.
Prints, at the start and at the end, a digest of the parameters, which all ranks have alike, and the
norm of the sum of all ranks' residuals.
"""

import hashlib
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sluice.torch


def save(folder, model, optimizer, handle) -> None:
    """Every rank calls it, between steps."""
    os.makedirs(folder, exist_ok=True)
    if dist.get_rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   os.path.join(folder, "model.pt"))
    torch.save(handle.state_dict(), os.path.join(folder, f"sluice-{dist.get_rank()}.pt"))


def load(folder, model, optimizer, handle) -> None:
    """Every rank calls it, after attach() and before the first step."""
    saved = torch.load(os.path.join(folder, "model.pt"))
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    world = torch.load(os.path.join(folder, "sluice-0.pt"))["world"]
    # As many ranks as then: a rank needs its own. Otherwise everybody needs all.
    ranks = [dist.get_rank()] if world == dist.get_world_size() else range(world)
    handle.load_state_dict(
        [torch.load(os.path.join(folder, f"sluice-{rank}.pt")) for rank in ranks])
    dist.barrier()  # so that nobody writes the next checkpoint over one that is being read


def batch(step: int) -> torch.Tensor:
    """The same on a rank whether the job was restarted or not."""
    seed = 1000 * step + dist.get_rank()
    return torch.randn(16, 128, generator=torch.Generator().manual_seed(seed))


def report(model, handle) -> None:
    """One line of what every rank must have alike, and of what ranks have together."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    digests: list = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest.hexdigest()[:16])
    memory, tensors = handle.state.memory, handle.state.tensors.compressed.values()
    total = torch.cat([torch.frombuffer(memory.kept(index)["residual"], dtype=torch.float32)
                       for index in tensors]).double()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print(f"step {handle.state.step} parameters {' '.join(sorted(set(digests)))}"
              f" residuals {total.norm():.6e}")


def main() -> None:
    folder, steps = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(
        torch.nn.Linear(128, 256), torch.nn.Tanh(), torch.nn.Linear(256, 128)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    handle = sluice.torch.attach(model, codec="tide:bits=2", feedback="ef")
    found = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if found:
        load(os.path.join(folder, found[-1]), model, optimizer, handle)
    report(model, handle)
    for step in range(handle.state.step, steps):
        inputs = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), inputs.flip(1)).backward()
        optimizer.step()
        if (step + 1) % 4 == 0:
            save(os.path.join(folder, f"step{step + 1:06}"), model, optimizer, handle)
    report(model, handle)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
