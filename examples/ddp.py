"""The smallest DDP training with Sluice.

    torchrun --nproc-per-node 2 examples/ddp.py

The line that matters is the one with attach().
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sluice.torch


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(),
                                torch.nn.Linear(512, 256))
    ddp_model = DistributedDataParallel(model)
    handle = sluice.torch.attach(ddp_model, codec="tide:bits=4")

    optimizer = torch.optim.Adam(ddp_model.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1 + rank)
    teacher = torch.randn(256, 256, generator=torch.Generator().manual_seed(9)) / 16
    for step in range(int(os.environ.get("STEPS", "40"))):
        inputs = torch.randn(64, 256, generator=generator)
        loss = torch.nn.functional.mse_loss(ddp_model(inputs), inputs @ teacher)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}  loss {loss.item():.4f}")

    stats = handle.stats()
    if rank == 0:
        print(f"{stats['steps']} steps, {stats['bytes_sent'] / 1e6:.2f} MB sent per rank,"
              f" {stats['ratio']:.1f} times less than float32, error {stats['vnmse']:.1e}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
