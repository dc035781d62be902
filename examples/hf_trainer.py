"""Sluice with the Hugging Face Trainer.

    torchrun --nproc-per-node 2 examples/hf_trainer.py [FOLDER]

A callback attaches Sluice to trainer.model_wrapped, the DDP model, when training begins. With a
folder the script keeps checkpoints in it and continues from the last one, if there is one.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import transformers
from transformers.trainer_utils import get_last_checkpoint

import sluice.torch


class SluiceCallback(transformers.TrainerCallback):
    """Attaches Sluice, and keeps its state in the Trainer's checkpoints, a file per rank."""

    def __init__(self, trainer: transformers.Trainer, **options) -> None:
        self.trainer, self.options = trainer, options
        self.handle = self.model = None

    def file(self, args, state) -> str:
        folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f"sluice-{args.process_index}.pt")

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        model = self.trainer.model_wrapped
        if not dist.is_initialized() or model is self.model:
            return  # a job of one process, or a second train() of the same DDP model
        self.model, self.handle = model, sluice.torch.attach(model, **self.options)
        if state.global_step > 0:
            self.handle.load_state_dict(torch.load(self.file(args, state)))

    def on_save(self, args, state, control, **kwargs) -> None:
        if self.handle is not None:
            torch.save(self.handle.state_dict(), self.file(args, state))


class Tokens(torch.utils.data.Dataset):
    """Random walks over a small vocabulary: something to learn without a download."""

    def __init__(self, count: int, length: int) -> None:
        steps = torch.randint(0, 3, (count, length), generator=torch.Generator().manual_seed(1))
        self.tokens = steps.cumsum(1) % 64

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict:
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    transformers.set_seed(0)
    config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=128, n_layer=2, n_head=4,
                                     bos_token_id=0, eos_token_id=0)
    arguments = transformers.TrainingArguments(
        output_dir=folder or tempfile.gettempdir(), max_steps=20, per_device_train_batch_size=8,
        learning_rate=1e-3, lr_scheduler_type="constant", logging_steps=5, report_to=[],
        disable_tqdm=True, save_strategy="steps" if folder else "no", save_steps=10,
        ddp_find_unused_parameters=False, use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available())
    trainer = transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=arguments,
                                   train_dataset=Tokens(512, 32))
    compression = SluiceCallback(trainer, codec="tide:bits=4", feedback="ef")
    trainer.add_callback(compression)
    last = get_last_checkpoint(folder) if folder and os.path.isdir(folder) else None
    trainer.train(resume_from_checkpoint=last)

    stats = compression.handle.stats() if compression.handle else None
    if stats and trainer.is_world_process_zero():
        print(f"{stats['steps']} steps, {stats['ratio']:.1f} times less than float32")


if __name__ == "__main__":
    main()
