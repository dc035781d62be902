"""The job with two heads: its data and its parts."""

import unittest

import paths  # noqa: F401
import torch
from training import jobs, options
from training.jobs import gpt, heads

SOURCE = b'''# Why.
def f(x1):
    return "a b" + f("""c
d""", 0x1f)
'''
LETTERS = {"space": " ", "name": "n", "keyword": "k", "number": "0", "string": "s",
           "comment": "c", "operator": "o"}
KINDS = '''cccccc
kkk nonnoo
    kkkkkk sssss o nossss
sssso 0000o
'''


class TokenKinds(unittest.TestCase):
    def test_every_byte_has_the_kind_of_its_token(self):
        found = "".join(LETTERS[heads.KINDS[kind]] for kind in heads.kinds_of(SOURCE))
        # A line's end is white space but within a string, where it belongs to that.
        wanted = KINDS.replace("ssss\nssss", "sssssssss")
        self.assertEqual(found, wanted.replace("\n", " "))

    def test_all_kinds_occur_in_the_text(self):
        sources, kinds = heads.text()
        self.assertEqual(len(sources), len(kinds))
        self.assertGreaterEqual(len(sources), heads.TEXT_SIZE)
        counts = torch.bincount(kinds.long(), minlength=len(heads.KINDS))
        self.assertEqual(len(counts), len(heads.KINDS))
        self.assertGreater(counts.min().item(), 1000)


class Data(unittest.TestCase):
    def test_the_seed_decides_weights_and_order(self):
        def first(seed):
            job = jobs.make("heads", seed)
            return [*job.batch(3, 1), next(job.model().parameters())]
        for mine, same, other in zip(first(1), first(1), first(2)):
            self.assertTrue(torch.equal(mine, same))
            self.assertFalse(torch.equal(mine, other))

    def test_rows_are_bytes_with_the_next_byte_and_the_kind(self):
        sources, kinds = heads.text()
        tokens, targets, found = heads.Heads._rows([1000, 2000])
        self.assertEqual(tokens.shape, (2, gpt.CONTEXT))
        for row, start in enumerate((1000, 2000)):
            end = start + gpt.CONTEXT
            self.assertTrue(torch.equal(tokens[row], sources[start:end].long()))
            self.assertTrue(torch.equal(targets[row], sources[start + 1:end + 1].long()))
            self.assertTrue(torch.equal(found[row], kinds[start:end].long()))

    def test_nothing_that_is_held_out_is_learned_from(self):
        length, border = 100_000, 95_000
        learned = [start for step in range(200) for start in gpt.drawn(length,
                                                                       jobs.generator(1, step, 0))]
        self.assertLessEqual(max(learned) + gpt.CONTEXT + 1, border)
        for times in (1, 8):
            kept = [start for rank in range(4) for start in gpt.kept(length, rank, 4, times)]
            self.assertEqual(len(set(kept)), times * gpt.HELD_OUT_ROWS)
            self.assertGreaterEqual(min(kept), border)
            self.assertLess(max(kept) + gpt.CONTEXT, length)

    def test_every_job_has_as_much_held_out_data_as_asked_for(self):
        for name in options.JOBS:
            job = jobs.make(name, 1)
            sizes = [len(job.held_out(1, 4, times)[0]) for times in (1, 3)]
            self.assertEqual(sizes[1], 3 * sizes[0], name)


class WeakHead(unittest.TestCase):
    def test_it_has_a_small_tower_of_its_own_and_little_weight(self):
        model = jobs.make("heads", 1).model()
        share = sum(p.numel() for p in model.kinds.parameters()) / \
            sum(p.numel() for p in model.parameters())
        self.assertTrue(0.07 < share < 0.09, share)
        self.assertEqual(list(heads.Heads.heads.values()), [1.0, 0.03])

    def test_the_loss_is_the_weighted_sum_of_the_heads(self):
        model = heads.Model()
        model.per_head = lambda *batch: torch.tensor([2.0, 10.0])
        self.assertAlmostEqual(model().item(), 2.3, places=6)

    def test_its_gradients_are_far_below_the_others(self):
        job = jobs.make("heads", 1)
        model = job.model()
        model(*job.batch(0, 0)).backward()

        def size(part):
            """Of a typical entry, where gradients are compressed."""
            return torch.cat([p.grad.flatten() for p in part.parameters()
                              if p.dim() > 1 and p.numel() >= 4096]).square().mean().sqrt().item()
        self.assertGreater(size(model.kinds), 0)
        self.assertLess(size(model.kinds), size(model.bytes) / 100)

    def test_what_is_compressed_of_its_tower_is_most_of_it(self):
        """The output layer is small and so travels exactly; it must not be able to do the work."""
        tower = heads.KindTower()
        large = sum(p.numel() for p in tower.parameters() if p.dim() > 1 and p.numel() >= 4096)
        self.assertGreater(large, 0.97 * sum(p.numel() for p in tower.parameters()))


if __name__ == "__main__":
    unittest.main()
