"""Cases on sparse gradients: rows of all ranks, exactly, in turns of their own."""

import contextlib
import fractions
import warnings

import ddp_kit as kit
import torch
from ddp_kit import case

from sluice.torch import SluiceError, SluiceState, hook
from sluice.torch._sparse import read_rows, write_rows

F32 = {"sparse_codec": "f32"}
EXACT = ({}, F32, {"carrier": "stream"})  # every way that rows travel


class GivenRows(torch.autograd.Function):
    """Zero, with a sparse gradient of one's choice (times what comes from above)."""

    @staticmethod
    def forward(ctx, parameter, indexes, values):
        ctx.save_for_backward(indexes, values)
        ctx.shape = parameter.shape
        return parameter.new_zeros((), dtype=torch.float32)

    @staticmethod
    def backward(ctx, above):
        indexes, values = ctx.saved_tensors
        values = values * above.to(values.dtype)
        return sparse(indexes, values, ctx.shape), None, None


def sparse(indexes, values, shape):
    options = {} if kit.TORCH < (2, 0) else {"check_invariants": True}
    return torch.sparse_coo_tensor(indexes, values, shape, **options)


class Table(torch.nn.Embedding):
    """One parameter of any shape, which DDP takes for an embedding's; its gradient is what
    forward() is given. And a dense one, if wanted."""

    def __init__(self, shape, dtype=torch.float32, beside=None):
        super().__init__(1, 1, sparse=True)
        self.weight = torch.nn.Parameter(torch.zeros(shape, dtype=dtype))
        self.beside = kit.Sheet(beside) if beside else None

    def forward(self, indexes, values, dense=None):
        total = GivenRows.apply(self.weight, indexes, values)
        return total + self.beside(dense) if dense else total


def backward(ddp, *given):
    """One step; the gradient of the table."""
    ddp.zero_grad(set_to_none=True)
    ddp(*given).backward()
    return ddp.module.weight.grad


def draw(rank, step, rows, count, row_shape=(5,), whole=True):
    """(indexes, values) of a rank: `count` rows, some of them more than once; whole numbers, which
    any order adds up to the same, or any."""
    draws = torch.Generator().manual_seed(1 + rank + 100 * step)
    indexes = torch.randint(rows, (1, count), generator=draws)
    if whole:
        return indexes, torch.randint(-99, 99, (count, *row_shape), generator=draws).float()
    return indexes, torch.randn(count, *row_shape, generator=draws)


def sums(every, shape, dtype=torch.float64):
    """(union of the rows, their sums) of what all ranks were given."""
    total = torch.zeros(shape, dtype=dtype)
    for indexes, values in every:
        total.index_put_(tuple(indexes), values.to(dtype), accumulate=True)
    union = torch.unique(torch.cat([indexes for indexes, _ in every], 1), dim=1)
    return union, total[tuple(union)]


def check(got, union, values, what):
    """A sparse gradient has these rows, in order, with these bits."""
    assert got.is_sparse and got.is_coalesced(), what
    assert torch.equal(got._indices(), union), (what, got._indices(), union)
    assert kit.same_bits(got._values(), values), (what, got._values(), values)


# --- sets of rows ---


@case(sizes=(2,))
def sets_of_rows_come_back_in_as_few_bytes_as_a_list_or_a_bitmap_has(rank, size):
    draws = torch.Generator().manual_seed(1)
    for count in (0, 1, 7, 8, 9, 64, 1000, 2**31 + 1):
        kind = 4 if count <= 2**31 else 8
        for wanted in {0, 1, 2, count // 64, count // 32, count // 3, count}:
            if wanted > min(count, 1000):
                continue
            rows = torch.randperm(min(count, 10**5), generator=draws)[:wanted].sort().values
            rows += max(0, count - 10**5) * (wanted > 1)  # at the end of what is large
            written = write_rows(rows, count)
            assert written.dtype == torch.uint8
            assert written.numel() == min(kind * wanted, (count + 7) // 8), (count, wanted)
            assert torch.equal(read_rows(written, count), rows), (count, wanted)


@case(sizes=(2,))
def sets_of_rows_that_cannot_be_are_refused(rank, size):
    for data, count in (([0, 0, 0, 1, 9], 64), ([1, 2, 3], 64), ([64, 0, 0, 0], 64),
                        ([255] * 4, 64), ([2], 1), ([128], 7), ([1] * 9, 64), ([1], 0)):
        with kit.fails(ValueError, "accepted"):
            read_rows(torch.tensor(data, dtype=torch.uint8), count)


# --- which rows, which mean ---


@case(sizes=(3,))
def rows_of_all_ranks_arrive_on_every_rank(rank, size):
    """With as many rows on each rank as written here, of 40: none, few, the same on all, all."""
    plans = [[12] * size, [0] * (size - 1) + [3], [1] * size, [0] * size, [300] * size,
             [40 * r for r in range(size)]]
    for options in EXACT:
        ddp, handle = kit.attached(Table((40, 5)), "tide", check_every=1, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step, plan in enumerate(plans):
                every = [draw(r, step, 40, count) for r, count in enumerate(plan)]
                union, total = sums(every, (40, 5))
                check(backward(ddp, *every[rank]), union, (total / size).float(),
                      (options, step))
        assert not [w for w in caught if "parse" in str(w.message)], [str(w) for w in caught]
        stats = handle.stats()
        assert stats["steps"] == stats["checks"] == stats["sparse_buckets"] == len(plans), stats
        assert stats["exact_buckets"] == 0, stats


def rounded_once(numerators, size):
    """The float32 nearest to the sum over the size, by whole numbers alone."""
    exact = sum(map(fractions.Fraction, numerators)) / size
    guess = torch.tensor(float(exact))
    near = [guess, torch.nextafter(guess, torch.tensor(torch.inf)),
            torch.nextafter(guess, torch.tensor(-torch.inf))]
    return min(near, key=lambda one: abs(fractions.Fraction(one.item()) - exact))


@case
def lossless_rows_are_the_true_mean_rounded_once(rank, size):
    """From 2^-20 to 2^20 in one row, each row once on each rank that has it."""
    ddp, _ = kit.attached(Table((64, 6)), "tide")
    every = []
    for r in range(size):
        indexes, values = draw(r, 0, 64, 24, (6,), whole=False)
        indexes = torch.randperm(64, generator=torch.Generator().manual_seed(r))[:24].view(1, -1)
        every.append((indexes, values * 2.0 ** torch.tensor([-20, 20, 0, 7, -9, 12])))
    got = backward(ddp, *every[rank])
    rows = {}
    for indexes, values in every:
        for row, value in zip(indexes[0].tolist(), values.tolist()):
            rows.setdefault(row, []).append(value)
    wanted = torch.stack([torch.stack([rounded_once(column, size) for column in zip(*rows[row])])
                          for row in sorted(rows)])
    check(got, torch.tensor([sorted(rows)]), wanted, "lossless")


@case
def f32_rows_are_the_mean_in_order_of_rank(rank, size):
    ddp, _ = kit.attached(Table((64, 6)), "tide", **F32)
    every = [draw(r, 0, 64, 1, (6,), whole=False) for r in range(size)]
    every = [(torch.tensor([[9]]), values) for _, values in every]
    check(backward(ddp, *every[rank]), torch.tensor([[9]]),
          kit.mean_in_order_of_rank([values for _, values in every]), "f32")


@case(sizes=(3,))
def rows_of_any_shape_and_several_sparse_dimensions(rank, size):
    for shape, dims in (((30, 4, 3), 1), ((30,), 1), ((7, 5, 4), 2), ((6, 5, 4), 3),
                        ((9, 0), 1), ((1, 1), 1), ((0, 4), 1)):
        if kit.TORCH < (2, 0) and shape[0] == 0:
            break  # DDP itself fails.
        ddp, _ = kit.attached(Table(shape), "tide")
        every = []
        for r in range(size):
            draws = torch.Generator().manual_seed(r)
            count = 8 if shape[0] else 0
            indexes = torch.stack([torch.randint(max(1, extent), (count,), generator=draws)
                                   for extent in shape[:dims]])
            values = torch.randint(-9, 9, (count, *shape[dims:]), generator=draws).float()
            every.append((indexes, values))
        union, total = sums(every, shape)
        got, wanted = backward(ddp, *every[rank]), (total / size).float()
        if dims > 1:  # What added up to zero is not among them.
            kept = wanted.view(wanted.shape[0], -1).any(1)
            union, wanted = union[:, kept], wanted[kept]
        check(got, union, wanted, (shape, dims))


@case(sizes=(2,))
def the_layout_of_lanes_and_waves_changes_nothing(rank, size):
    """Of 2 to 20 waves, of which every step needs another number."""
    ends = set()
    layouts = ({"tracks": 1}, {"tracks": 3, "wave": 4096}, {"tracks": 1, "wave": 4096},
               {"tracks": 2, "wave": 4096, "carrier": "stream"})
    for layout in layouts:
        ddp, handle = kit.attached(Table((1000, 80), beside={"wide": (90, 50)}), "tide:bits=3",
                                   feedback="ef", check_every=1, **layout)
        grads = {}
        for step, count in enumerate((500, 3, 0, 90)):
            got = backward(ddp, *draw(rank, step, 1000, count, (80,), whole=False),
                           kit.gradients(rank, step, {"wide": (90, 50)}))
            grads.update({f"{step}": got._values(), f"{step} rows": got._indices(),
                          f"{step} dense": ddp.module.beside.wide.grad})
        assert handle.stats()["checks"] == 4, handle.stats()
        ends.add(kit.bits(grads))
    assert len(ends) == 1, ends
    return ends.pop()


# --- other kinds of floats ---


def _halves(rank, size, dtype):
    shape = (50, 7)
    ddp, handle = kit.attached(Table(shape, dtype), "tide")
    every = [draw(r, 0, 50, 300, (7,)) for r in range(size)]
    every = [(indexes, values.to(dtype)) for indexes, values in every]
    union, total = sums(every, shape)
    check(backward(ddp, *every[rank]), union, (total.float() / size).to(dtype), dtype)
    values = torch.ones(3, 7, dtype=dtype)
    values[:2] = torch.finfo(dtype).max
    got = backward(ddp, torch.tensor([[4, 4, 30]]), values)
    assert torch.isinf(got._values()[0]).all() and (got._values()[1] == 1).all(), got
    assert handle.stats()["skipped_steps"] == 1, handle.stats()


@case(sizes=(3,))
def bf16_rows_are_rounded_once(rank, size):
    kit.needs_torch(2, 0, "bfloat16 in Gloo, which DDP needs to start")
    _halves(rank, size, torch.bfloat16)


@case(sizes=(2,))
def fp16_rows_are_rounded_once(rank, size):
    _halves(rank, size, torch.float16)


@case(sizes=(2,))
def float64_rows_travel_as_they_are_with_one_warning(rank, size):
    ddp, handle = kit.attached(Table((40, 5), torch.float64), "tide")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2):
            every = [draw(r, step, 40, 12) for r in range(size)]
            every = [(indexes, values.double() * 2**30 + 1) for indexes, values in every]
            union, total = sums(every, (40, 5))
            check(backward(ddp, *every[rank]).coalesce(), union, total / size, step)
    said = [str(w.message) for w in caught if "Sluice" in str(w.message)]
    assert len(said) == 1 and "sparse gradients of torch.float64" in said[0], said
    assert handle.stats()["exact_buckets"] == 2, handle.stats()


@case(sizes=(3,))
def what_is_not_finite_arrives_and_the_step_is_skipped(rank, size):
    ddp, handle = kit.attached(Table((40, 5), beside={"wide": (33, 129)}), "tide", feedback="ef",
                               min_size=0)
    dense = {"wide": (33, 129)}
    backward(ddp, *draw(rank, 0, 40, 9), kit.gradients(rank, 0, dense))
    before = kit.contents(handle)["residuals"]
    assert set(before) == {"beside.wide"}, set(before)
    indexes, values = torch.tensor([[1, 8]]), torch.ones(2, 5)
    if rank == size - 1:
        values[1, 2], values[1, 3] = torch.inf, torch.nan
    got = backward(ddp, indexes, values, kit.gradients(rank, 1, dense))
    assert torch.equal(torch.isfinite(got._values()), torch.tensor(
        [[True] * 5, [True, True, False, False, True]])), got
    assert torch.isinf(got._values()[1, 2]) and torch.isnan(got._values()[1, 3]), got
    kit.check_same(kit.contents(handle)["residuals"], before, "residuals")
    assert handle.stats()["skipped_steps"] == 1, handle.stats()


# --- DDP's features ---


@case(sizes=(2,))
def embeddings_accumulate_join_and_are_views(rank, size):
    """What DDP can do with sparse gradients, against sums of whole numbers."""
    graphs = ({}, {"gradient_as_bucket_view": True}, {"static_graph": True},
              {"find_unused_parameters": True})
    for graph in graphs:
        ddp, handle = kit.attached(Table((40, 5)), "tide", ddp=graph)
        for step in range(3):
            # DDP learns a static graph at its first pass, which is synchronised. Before torch 2 it
            # cannot accumulate with one.
            static = "static_graph" in graph
            parts = 1 if static and (step == 0 or kit.TORCH < (2, 0)) else 2
            every = [draw(r, 10 * step + part, 40, 9) for r in range(size)
                     for part in range(parts)]
            ddp.zero_grad(set_to_none=True)
            for part in range(parts):
                with contextlib.nullcontext() if part == parts - 1 else ddp.no_sync():
                    ddp(*every[parts * rank + part]).backward()
            union, total = sums(every, (40, 5))
            check(ddp.module.weight.grad, union, (total / size).float(), (graph, step))
        assert handle.stats()["steps"] == 3, handle.stats()
    ddp, handle = kit.attached(Table((40, 5)), "tide")
    with ddp.join():
        for step in range(2 + rank):
            every = [draw(r, step, 40, 9) for r in range(size) if step < 2 + r]
            union, total = sums(every, (40, 5))
            check(backward(ddp, *every[rank - size]), union, (total / size).float(), step)
    assert handle.stats()["steps"] == 1 + size, handle.stats()


class Recommender(torch.nn.Module):
    """Embeddings and bags of every mode, beside matrices."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.users = torch.nn.Embedding(300, 16, sparse=True, padding_idx=0)
            self.items = torch.nn.EmbeddingBag(500, 16, sparse=True, mode="mean")
            self.tags = torch.nn.EmbeddingBag(60, 16, sparse=True, mode="sum")
            self.kinds = torch.nn.Embedding(70, 16)
            self.top = torch.nn.Sequential(torch.nn.Linear(64, 70), torch.nn.ReLU(),
                                           torch.nn.Linear(70, 1))

    def forward(self, users, items, tags, kinds):
        parts = (self.users(users), self.items(items), self.tags(tags), self.kinds(kinds))
        return self.top(torch.cat(parts, 1)).squeeze(1)

    def groups(self):
        """Parameters with sparse gradients, and the others."""
        tables = [self.users.weight, self.items.weight, self.tags.weight]
        return tables, [p for p in self.parameters() if all(p is not t for t in tables)]


def recommend(ddp, rank, steps, optimizers):
    for step in range(steps):
        draws = torch.Generator().manual_seed(1000 * step + rank)
        batch = [torch.randint(extent, shape, generator=draws)
                 for extent, shape in ((300, (8,)), (500, (8, 5)), (60, (8, 3)), (70, (8,)))]
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.nn.functional.mse_loss(ddp(*batch), torch.randn(8, generator=draws)).backward()
        for optimizer in optimizers:
            optimizer.step()


def optimizers_of(model, name):
    tables, others = model.groups()
    if name == "sgd":
        return [torch.optim.SGD(tables + others, lr=0.2)]
    return [torch.optim.SparseAdam(tables, lr=0.01), torch.optim.Adam(others, lr=0.01)]


@case(sizes=(3,))
def a_recommender_trains_as_without_sluice(rank, size):
    """The dense parameters through f32, so that rounding is all that differs."""
    ends = []
    for name, carrier in (("sgd", "torch"), ("adam", "stream")):
        plain = kit.wrap(Recommender())
        recommend(plain, rank, 5, optimizers_of(plain.module, name))
        ddp, handle = kit.attached(Recommender(), "f32", check_every=2, carrier=carrier)
        recommend(ddp, rank, 5, optimizers_of(ddp.module, name))
        for (key, got), wanted in zip(ddp.module.named_parameters(), plain.module.parameters()):
            # Adam divides by the square root of what may be near 0, where rounding shows.
            assert torch.allclose(got, wanted, rtol=1e-4, atol=1e-5), (name, key)
        stats = handle.stats()
        assert stats["sparse_buckets"] == 15 and stats["checks"] == 3, stats
        ends.append(kit.bits(ddp))
    return ends


@case(sizes=(2,))
def a_recommender_is_resumed_to_the_same_bits(rank, size):
    options = {"codec": "tide:bits=3", "feedback": "ef", "min_size": 0}
    whole, _ = kit.attached(Recommender(), **options)
    recommend(whole, rank, 3, optimizers_of(whole.module, "sgd"))
    ddp, handle = kit.attached(Recommender(), **options)
    recommend(ddp, rank, 3, optimizers_of(ddp.module, "sgd"))
    saved, held, weights = handle.state_dict(), kit.contents(handle), ddp.module.state_dict()
    assert not {"users.weight", "items.weight", "tags.weight"} & set(held["residuals"])
    assert "kinds.weight" in held["residuals"]
    recommend(whole, rank, 3, optimizers_of(whole.module, "sgd"))
    # A state may have what a version saved that kept memory of tables, too.
    held["residuals"]["users.weight"] = torch.zeros(300 * 16)
    for state in (saved, held):
        resumed, second = kit.attached(Recommender(), **options)
        resumed.module.load_state_dict(weights)
        second.load_state_dict(state)
        recommend(resumed, rank, 3, optimizers_of(resumed.module, "sgd"))
        assert kit.bits(whole) == kit.bits(resumed)
    return kit.bits(whole)


@case(sizes=(2,))
def a_hook_without_its_model_knows_sparse_ones_by_their_gradients(rank, size):
    pair = kit.wrap(Recommender())
    state = SluiceState(codec="tide", feedback="ef", min_size=0, tracks=2, timeout=kit.TIMEOUT)
    pair.register_comm_hook(state, hook)
    kit.launched_ranks.later(state.close)
    recommend(pair, rank, 3, optimizers_of(pair.module, "sgd"))
    assert state.stats()["sparse_buckets"] == 9 and len(state.tensors.sparse) == 3, state.stats()
    assert len(kit.contents(state)["residuals"]) == 3, set(kit.contents(state)["residuals"])
    return kit.bits(pair)


@case(sizes=(2,))
def detached_rows_travel_as_without_sluice(rank, size):
    ddp, handle = kit.attached(Table((40, 5)), "tide")
    backward(ddp, *draw(rank, 0, 40, 9))
    handle.detach()
    every = [draw(r, 1, 40, 9) for r in range(size)]
    union, total = sums(every, (40, 5))
    got = backward(ddp, *every[rank]).coalesce()
    assert torch.equal(got._indices(), union)
    assert torch.allclose(got._values(), (total / size).float(), atol=1e-4), got


# --- bytes, memory, mistakes ---


@case(sizes=(3,))
def bytes_follow_the_rows_and_not_the_table(rank, size):
    """What is sent is counted, and is a small part of a table of 4 MB."""
    sent = {}
    for count in (0, 10, 1000):
        ddp, handle = kit.attached(Table((100_000, 10)), "tide", **F32)
        union, _ = sums([draw(r, 0, 100_000, count, (10,)) for r in range(size)], (100_000, 10))
        backward(ddp, *draw(rank, 0, 100_000, count, (10,)))
        stats = handle.stats()
        assert stats["sparse_rows"] == union.shape[1], stats
        assert stats["gradient_bytes"] == 4 * 10 * union.shape[1], stats
        sent[count] = stats["bytes_sent"]
    # A ring's of the values, and the lists of rows, to who looks after them and back; headers.
    mine, others = 4 * 1000, (size - 1) / size
    wanted = others * (2 * 40 * union.shape[1] + mine + 4 * union.shape[1])
    assert sent[0] <= 100 and sent[10] < 5000, sent
    assert 0.98 * wanted < sent[1000] < 1.02 * wanted + 1000, (sent, wanted)


@case(sizes=(2,))
def a_codec_that_would_change_rows_is_refused(rank, size):
    for spec in ("tide", "bf16", "fixed"):
        with kit.fails(ValueError, "sparse_codec", repr(spec), "accepted: lossless or f32"):
            kit.attach(kit.wrap(Table((40, 5))), "tide", sparse_codec=spec)
    with kit.fails(ValueError, "lossles", "lossless"):
        kit.attach(kit.wrap(Table((40, 5))), "tide", sparse_codec="lossles")
    assert not kit.lane_threads()


@case(sizes=(3,))
def ranks_of_which_one_has_no_sparse_gradients_all_say_so(rank, size):
    model = Table((40, 5))
    model.sparse = rank != size - 1
    ddp = kit.wrap(model)
    with kit.fails(SluiceError, "disagree on sparse parameters", "['weight']", "[]",
                   f"rank {size - 1}", "accepted") as caught:
        kit.attach(ddp, "tide")
    return caught.text


@case(sizes=(3,))
def a_rank_with_other_rows_is_named_on_every_rank(rank, size):
    """As many as the others, so that nothing but the comparison of results can tell."""
    ddp, handle = kit.attached(Table((40, 5)), "tide", check_every=1, timeout=10.0)
    make = handle.state._make_work

    def made(*arguments):
        work = make(*arguments)
        repack = work.repack

        def tampered(memory):
            if rank == 1:
                work.rows[-1] = 39 if work.rows[-1] != 39 else 38
            return repack(memory)

        work.repack = tampered
        return work

    handle.state._make_work = made
    with kit.fails(Exception, "ranks disagree", "step 0", "of rank 1 differs") as caught:
        backward(ddp, *draw(rank, 0, 40, 2))
    return "of rank 1 differs" in caught.text


@case(sizes=(3,))
def rows_that_another_rank_made_up_are_refused(rank, size):
    """Sizes and numbers that cannot be name who sent them, and nobody hangs."""
    ddp, handle = kit.attached(Table((40, 5)), "tide")
    for track in handle.state.tracks:
        def tampered(part, share=track.collectives.share):
            return share(torch.full((4,), 255, dtype=torch.uint8) if rank == 1 else part)
        track.collectives.share = tampered
    with kit.fails(Exception, "from rank 1 came", "accepted") as caught:
        backward(ddp, *draw(rank, 0, 40, 2))
    assert isinstance(handle.state.steps.error, SluiceError), caught.text
