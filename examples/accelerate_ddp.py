"""Sluice with Hugging Face Accelerate.

    torchrun --nproc-per-node 2 examples/accelerate_ddp.py [FOLDER]

In a job of several processes prepare() returns a DDP model, and attach() takes it. With a folder
the script leaves a checkpoint per epoch in it and continues after the last one that is there.
"""

import os
import sys

import torch
from accelerate import Accelerator

import sluice.torch


def keep_with_checkpoints(accelerator: Accelerator, handle: sluice.torch.Handle) -> None:
    """save_state() and load_state() then keep Sluice's state too, a file per process."""

    def file(folder: str) -> str:
        return os.path.join(folder, f"sluice-{accelerator.process_index}.pt")

    accelerator.register_save_state_pre_hook(
        lambda models, weights, folder: torch.save(handle.state_dict(), file(folder)))
    accelerator.register_load_state_pre_hook(
        lambda models, folder: handle.load_state_dict(torch.load(file(folder))))


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(),
                                torch.nn.Linear(512, 256))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    teacher = torch.randn(256, 256) / 16
    inputs = torch.randn(1024, 256)
    data = torch.utils.data.TensorDataset(inputs, inputs @ teacher)
    loader = torch.utils.data.DataLoader(data, batch_size=32)

    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    handle = sluice.torch.attach(model, codec="tide:bits=4", feedback="ef")
    keep_with_checkpoints(accelerator, handle)
    first = 0
    while folder and os.path.isdir(os.path.join(folder, f"epoch{first}")):
        first += 1
    if first > 0:
        accelerator.load_state(os.path.join(folder, f"epoch{first - 1}"))

    for epoch in range(first, 2):
        for batch, target in loader:
            loss = torch.nn.functional.mse_loss(model(batch), target)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch {epoch}  loss {loss.item():.4f}")
        if folder:
            accelerator.save_state(os.path.join(folder, f"epoch{epoch}"))

    stats = handle.stats()
    accelerator.print(f"{stats['steps']} steps, {stats['ratio']:.1f} times less than float32")
    accelerator.end_training()


if __name__ == "__main__":
    main()
