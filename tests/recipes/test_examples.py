"""Every example with the real packages, two processes each: it compresses, it learns, and a job
that was stopped and continued ends with the same bits as one that was not."""

import os
import re
import shutil
import unittest

from recipes_kit import RecipeTest, needs


class ExampleTest(RecipeTest):
    def check_compresses(self, out, least, steps):
        found = re.search(r"(\d+) steps,.* ([0-9.]+) times less than float32", out)
        self.assertTrue(found, out)
        self.assertEqual(int(found[1]), steps, out)
        self.assertGreater(float(found[2]), least, out)

    def check_learns(self, out, pattern=r"loss ([0-9.]+)"):
        losses = [float(loss) for loss in re.findall(pattern, out)]
        self.assertGreaterEqual(len(losses), 2, out)
        self.assertLess(losses[-1], 0.99 * losses[0], out)

    def check_same_bytes(self, one, other):
        with open(one, "rb") as first, open(other, "rb") as second:
            self.assertTrue(first.read() == second.read(), f"{one} and {other} differ")


@needs("torch")
class Ddp(ExampleTest):
    def test_ddp(self):
        out = self.torchrun("examples/ddp.py")
        self.check_compresses(out, 5, steps=40)
        self.check_learns(out)

    def test_snippets_of_the_documentation(self):
        self.assertIn("snippets are fine",
                      self.torchrun("tests/recipes/snippets.py", self.path("dcp")))

    def test_a_resumed_job_has_the_same_bits(self):
        def lines(out):
            found = re.findall(r"step (\d+) parameters (\w+) residuals (\S+)", out)
            self.assertEqual(len(found), 2, out)
            return found

        _, straight = lines(self.torchrun("tests/recipes/checkpoint.py", self.path("a"), "8"))
        for name in "bc":
            shutil.copytree(self.path("a", "step000004"), self.path(name, "step000004"))
        start, resumed = lines(self.torchrun("tests/recipes/checkpoint.py", self.path("b"), "8"))
        self.assertEqual(start[0], "4")
        self.assertEqual(resumed, straight)
        # Another number of ranks: nothing of what was not sent yet is lost.
        with_three, end = lines(
            self.torchrun("tests/recipes/checkpoint.py", self.path("c"), "8", ranks=3))
        self.assertEqual(with_three, start)
        self.assertNotEqual(end[1], straight[1])


@needs("torch", "accelerate")
class Accelerate(ExampleTest):
    def test_accelerate(self):
        out = self.torchrun("examples/accelerate_ddp.py", self.path("a"))
        self.check_compresses(out, 5, steps=32)
        self.check_learns(out)
        shutil.copytree(self.path("a", "epoch0"), self.path("b", "epoch0"))
        out = self.torchrun("examples/accelerate_ddp.py", self.path("b"))
        self.check_compresses(out, 5, steps=16)
        self.check_same_bytes(self.path("a", "epoch1", "model.safetensors"),
                              self.path("b", "epoch1", "model.safetensors"))


@needs("torch", "lightning")
class Lightning(ExampleTest):
    def parameters(self, file):
        import torch

        return torch.load(file, weights_only=False)["state_dict"]

    def test_lightning(self):
        out = self.torchrun("examples/lightning_ddp.py", self.path("a"))
        self.check_compresses(out, 5, steps=32)
        self.check_learns(out)
        out = self.torchrun("examples/lightning_ddp.py", self.path("b"),
                            self.path("a", "step=16.ckpt"))
        self.check_compresses(out, 5, steps=16)
        straight = self.parameters(self.path("a", "step=32.ckpt"))
        resumed = self.parameters(self.path("b", "step=32.ckpt"))
        self.assertEqual(list(straight), list(resumed))
        for name, values in straight.items():
            self.assertTrue(values.equal(resumed[name]), name)


@needs("torch", "transformers", "accelerate")
class Trainer(ExampleTest):
    def test_trainer(self):
        offline = {"HF_HUB_OFFLINE": "1"}
        out = self.torchrun("examples/hf_trainer.py", self.path("a"), variables=offline)
        self.check_compresses(out, 4, steps=20)
        self.check_learns(out, r"'loss': '?([0-9.]+)")
        shutil.copytree(self.path("a", "checkpoint-10"), self.path("b", "checkpoint-10"))
        out = self.torchrun("examples/hf_trainer.py", self.path("b"), variables=offline)
        self.check_compresses(out, 4, steps=10)
        self.check_same_bytes(os.path.join(self.path("a"), "checkpoint-20", "model.safetensors"),
                              os.path.join(self.path("b"), "checkpoint-20", "model.safetensors"))


if __name__ == "__main__":
    unittest.main()
