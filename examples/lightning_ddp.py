"""Sluice with Lightning.

    torchrun --nproc-per-node 2 examples/lightning_ddp.py [FOLDER [CHECKPOINT]]

A callback attaches Sluice to the strategy's DDP model. With a folder the script leaves a checkpoint
per epoch in it; with a checkpoint it continues from that.
"""

import os
import sys

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import sluice.torch


class SluiceCallback(lightning.Callback):
    """Attaches Sluice, and keeps its state beside Lightning's checkpoints, a file per rank."""

    def __init__(self, **options) -> None:
        self.options = options
        self.handle = self.resumed = None

    def file(self, trainer, folder: str, step: int) -> str:
        return os.path.join(folder, f"sluice-step={step}-rank={trainer.global_rank}.pt")

    def on_load_checkpoint(self, trainer, module, checkpoint) -> None:
        self.resumed = self.file(trainer, os.path.dirname(trainer.ckpt_path),
                                 checkpoint["global_step"])

    def on_fit_start(self, trainer, module) -> None:
        self.handle = sluice.torch.attach(trainer.strategy.model, **self.options)
        if self.resumed:
            self.handle.load_state_dict(torch.load(self.resumed))

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        folder = trainer.checkpoint_callback.dirpath
        os.makedirs(folder, exist_ok=True)
        torch.save(self.handle.state_dict(), self.file(trainer, folder, checkpoint["global_step"]))


class Regression(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(),
                                         torch.nn.Linear(512, 256))

    def training_step(self, batch, index):
        inputs, target = batch
        return torch.nn.functional.mse_loss(self.model(inputs), target)

    def on_train_batch_end(self, outputs, batch, index) -> None:
        if index == 0 and self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch}  loss {outputs['loss'].item():.4f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    checkpoint = sys.argv[2] if len(sys.argv) > 2 else None
    torch.manual_seed(0)
    teacher = torch.randn(256, 256) / 16
    inputs = torch.randn(1024, 256)
    data = torch.utils.data.TensorDataset(inputs, inputs @ teacher)
    loader = torch.utils.data.DataLoader(data, batch_size=32)

    compression = SluiceCallback(codec="tide:bits=4", feedback="ef")
    callbacks = [compression]
    if folder:
        callbacks.append(ModelCheckpoint(folder, "{step}", save_top_k=-1, every_n_epochs=1))
    trainer = lightning.Trainer(
        strategy="ddp", devices=2, max_epochs=2, callbacks=callbacks, logger=False,
        enable_checkpointing=bool(folder), enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Regression(), loader, ckpt_path=checkpoint)

    stats = compression.handle.stats()
    if trainer.is_global_zero:
        print(f"{stats['steps']} steps, {stats['ratio']:.1f} times less than float32")


if __name__ == "__main__":
    main()
