"""Process groups as the versions of torch have them, by fakes: no GPU, no other ranks.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_groups.py
"""

import contextlib
import datetime
import os
import threading
import types
import unittest
from unittest import mock

import ddp_kit as kit
import torch
import torch.distributed as dist

from sluice.torch import SluiceError, _groups, _native, _placement, _ranks, _settings

CUDA = torch.device("cuda", 1)
C10D = dist.distributed_c10d


class Backend:
    """Remembers what it is asked for."""

    def __init__(self, name="nccl", seconds=600, **more):
        self.calls = []
        self.name = lambda: name
        if seconds:
            self.options = types.SimpleNamespace(_timeout=datetime.timedelta(seconds=seconds))
        vars(self).update(more)


class Group:
    """Of torch 2: knows what runs its collectives on a kind of device."""

    def __init__(self, **backends):
        self._backends = backends

    def _get_backend(self, device):
        if device.type not in self._backends:
            raise RuntimeError("No backend type associated with device type")
        return self._backends[device.type]


def of(cuda):
    return Group(cuda=cuda)


class WhichBackend(unittest.TestCase):
    def test_all_backends_of_nccl_are_known(self):
        for name, wanted in (("nccl", True), ("nccl2", True), ("nccl-lazy", True), ("gloo", False),
                             ("ucc", False)):
            self.assertIs(_groups.is_nccl(of(Backend(name)), CUDA), wanted, name)
        self.assertIs(_groups.is_nccl(of(Backend("wrapper", wrapped_pg=Backend("nccl2"))), CUDA),
                      True)
        for name in ("nccl", "nccl2", "gloo"):
            with mock.patch.object(dist, "get_backend", return_value=name):
                self.assertIs(_groups.is_nccl(Group(), CUDA), name != "gloo")

    def choose(self, name, backend=None, lacks="", group=None):
        settings = _settings.make({} if backend is None else {"backend": backend})
        with mock.patch.object(_placement, "_look", return_value=("", mock.sentinel.device)), \
                mock.patch.object(dist, "get_world_size", return_value=4), \
                mock.patch.object(_groups, "lacks_abort", return_value=lacks):
            return _placement.choose(settings, [], group or of(Backend(name)), [CUDA], False)

    def test_nccl_is_taken_where_ddp_has_it_by_any_name(self):
        for name in ("nccl", "nccl2"):
            place = self.choose(name)
            self.assertEqual((place.backend, place.carries, place.instead), ("nccl", True, ""))
        place = self.choose("gloo")
        self.assertEqual((place.backend, place.carries), ("gloo", False))
        self.assertEqual(self.choose("gloo", "nccl").backend, "nccl")
        self.assertEqual(self.choose("nccl2", "gloo").backend, "gloo")

    def test_nccl_is_not_taken_where_its_collectives_cannot_be_ended(self):
        why = "torch 2.1.0 cannot …; accepted: torch 2.2 or later"
        place = self.choose("nccl", lacks=why)
        self.assertEqual((place.on_device, place.backend, place.carries, place.tracks,
                          place.instead), (True, "gloo", False, _placement.HOST_TRACKS, why))
        with self.assertRaisesRegex(ValueError, "backend 'nccl': torch 2.1.0 .*2.2 or later"):
            self.choose("nccl", "nccl", lacks=why)
        self.assertEqual(self.choose("gloo", lacks=why).instead, "")

    def test_the_timeout_is_found_behind_a_wrapper(self):
        wrapper = Backend("wrapper", seconds=None, wrapped_pg=Backend("nccl2", seconds=100))
        self.assertEqual(_groups.own_timeout(of(wrapper)), 90.0)
        self.assertEqual(_groups.own_timeout(Group(cpu=Backend("gloo", seconds=1000),
                                                   cuda=Backend("nccl", seconds=50))), 45.0)


class AGpuWithoutCode(unittest.TestCase):
    def look(self, settings):
        with mock.patch.object(_placement._library, "gpu_status", return_value=""), \
                mock.patch.object(_native, "Device",
                                  side_effect=SluiceError("device 1: no kernel image")):
            return _placement._look(settings, [], 2, CUDA)

    def test_goes_through_the_host_and_says_why(self):
        detour, opened = self.look(_settings.make({}))
        self.assertIsNone(opened)
        self.assertIn("device 1: no kernel image", detour)

    def test_is_refused_with_nccl(self):
        settings = _settings.make({"backend": "nccl"})
        with mock.patch.object(dist, "get_world_size", return_value=2), \
                mock.patch.object(_placement._library, "gpu_status", return_value=""), \
                mock.patch.object(_native, "Device", side_effect=SluiceError("no kernel image")), \
                self.assertRaisesRegex(ValueError, "backend 'nccl': no kernel image.*gloo"):
            _placement.choose(settings, [], of(Backend("nccl")), [CUDA], False)


class Making(unittest.TestCase):
    def new(self, ranks=(0, 1), backend="nccl", size=3, takes_device=True):
        """What torch is asked for, and with which variables."""
        asked = {}

        def with_device(ranks=None, timeout=None, backend=None, pg_options=None,
                        use_local_synchronization=False, device_id=None):
            asked.update(locals(), env=dict(os.environ))
            return mock.sentinel.group

        def without(ranks=None, timeout=None, backend=None, pg_options=None,
                    use_local_synchronization=False):
            asked.update(locals(), env=dict(os.environ))
            return mock.sentinel.group

        with mock.patch.object(dist, "new_group", with_device if takes_device else without), \
                mock.patch.object(dist, "ProcessGroupNCCL", create=True), \
                mock.patch.object(dist, "get_world_size", return_value=size):
            self.assertIs(_groups.new(ranks, backend, 12.5, CUDA), mock.sentinel.group)
        return asked

    def test_a_group_of_nccl_is_bound_to_the_device_of_the_gradients(self):
        asked = self.new()
        self.assertEqual(asked["device_id"], CUDA)
        self.assertEqual(asked["ranks"], [0, 1])
        self.assertIs(asked["use_local_synchronization"], True)
        self.assertEqual(asked["timeout"], datetime.timedelta(seconds=12.5))
        self.assertEqual(asked["pg_options"]._timeout, datetime.timedelta(seconds=12.5))
        self.assertEqual(asked["pg_options"].config.blocking, 1)
        self.assertNotIn("device_id", self.new(takes_device=False))

    def test_a_group_of_gloo_has_no_device_and_all_ranks_need_no_list(self):
        asked = self.new(ranks=(0, 1, 2), backend="gloo")
        self.assertEqual((asked["ranks"], asked["device_id"], asked["pg_options"],
                          asked["use_local_synchronization"]), (None, None, None, False))

    def test_torch_leaves_errors_of_nccl_to_us(self):
        names = ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT",
                 "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC")
        with mock.patch.dict(os.environ, {names[0]: "3"}):
            env = self.new()["env"]
            self.assertEqual([env.get(name) for name in names], ["0"] * 4)
            self.assertEqual(os.environ[names[0]], "3")
            self.assertNotIn(names[2], os.environ)
            self.assertEqual(self.new(backend="gloo")["env"][names[0]], "3")

    def test_only_torch_before_2_2_gets_the_former_names(self):
        old = {"NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT"}
        self.assertEqual(old & set(_groups.OURS_TO_TELL), old if kit.TORCH < (2, 2) else set())
        self.assertEqual(_groups.TORCH, kit.TORCH)


class Connecting(unittest.TestCase):
    def test_every_kind_of_collective_runs_once_small_and_once_large_beside_the_rest(self):
        seen, where = [], []

        class Stream:
            def __init__(self, device):
                self.device = device

            def synchronize(self):
                seen.append("synchronize")

        @contextlib.contextmanager
        def within(stream):
            where.append(stream)
            yield
            where.pop()

        def note(name, size, **kind):
            self.assertEqual(len(where), 1, "not on a stream of its own")
            seen.append((name, size, *kind.values()))

        host = torch.device("cpu")
        with mock.patch.object(torch.cuda, "Stream", Stream), \
                mock.patch.object(torch.cuda, "stream", within), \
                mock.patch.object(dist, "all_to_all_single", lambda to, mine, group: note(
                    "to all", mine.numel())), \
                mock.patch.object(dist, "all_gather_into_tensor", lambda to, mine, group: note(
                    "gather", mine.numel()), create=True), \
                mock.patch.object(dist, "all_reduce", lambda all, op, group: note(
                    "reduce", all.numel(), dtype=all.dtype, op=op)):
            _groups.connect("a group", 4, host)
        most, integers = dist.ReduceOp.MAX, torch.int32
        self.assertEqual(seen, [
            ("to all", 16), ("gather", 4), ("reduce", 4, integers, most),
            ("reduce", 4, integers, dist.ReduceOp.SUM), ("to all", 1 << 20), ("gather", 1 << 18),
            ("reduce", 1 << 18, integers, most), ("reduce", 1 << 18, integers, dist.ReduceOp.SUM),
            "synchronize"])


@unittest.skipIf(kit.TORCH < (2, 6), "groups are not split from that of all ranks")
class NoSplit(unittest.TestCase):
    """Of torch's own code: what would split asks where from."""

    def setUp(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        self.default = _groups.default_group()
        self.default.bound_device_id = CUDA

    def test_a_group_is_not_split_from_that_of_all_ranks(self):
        with mock.patch.object(C10D, "_get_split_source", return_value=None) as asked:
            with _groups.unbound():
                self.assertIsNone(self.default.bound_device_id)
                group = dist.new_group(backend="gloo")
            asked.assert_not_called()
            self.assertEqual(self.default.bound_device_id, CUDA)
            dist.new_group(backend="gloo")
            asked.assert_called()
        self.assertIsNone(group.bound_device_id)

    def test_it_is_bound_again_after_a_failure(self):
        with self.assertRaises(ZeroDivisionError), _groups.unbound():
            raise ZeroDivisionError
        self.assertEqual(self.default.bound_device_id, CUDA)


class Ending(unittest.TestCase):
    def aborted(self, backend, wrapped=False, at_once=None):
        """In which order what was called."""
        calls = []
        for name in ("abort", "_abort", "_shutdown", "shutdown"):
            if hasattr(backend, name):
                setattr(backend, name, lambda name=name: calls.append(name))
        group = of(Backend("wrapper", wrapped_pg=backend) if wrapped else backend)
        known = {"_abort_process_group": lambda one: calls.append(("all", one))} if at_once else {}
        c10d = types.SimpleNamespace(**known)
        with mock.patch.object(dist, "distributed_c10d", c10d), \
                mock.patch.object(dist, "destroy_process_group",
                                  lambda one: calls.append(("destroy", one))):
            _groups.abort(group, CUDA)
        return [call if isinstance(call, str) else (call[0], call[1] is group) for call in calls]

    def test_by_torchs_own_function_where_it_is(self):
        self.assertEqual(self.aborted(Backend(abort=1), at_once=True), [("all", True)])

    def test_what_is_wrapped_is_ended_itself(self):
        self.assertEqual(self.aborted(Backend(abort=1), wrapped=True, at_once=True),
                         ["abort", ("all", True)])

    def test_else_by_what_the_backend_has(self):
        destroyed = ("destroy", True)
        self.assertEqual(self.aborted(Backend(_shutdown=1, shutdown=1)), ["_shutdown", destroyed])
        self.assertEqual(self.aborted(Backend(abort=1, _abort=1, _shutdown=1)),
                         ["abort", destroyed])

    def lacks(self, **known):
        at_once = {"_abort_process_group": 1} if known.pop("at_once", 0) else {}
        c10d = types.SimpleNamespace(**at_once)
        with mock.patch.object(dist, "distributed_c10d", c10d), \
                mock.patch.object(dist, "ProcessGroupNCCL", types.SimpleNamespace(**known),
                                  create=True):
            return _groups.lacks_abort()

    def test_it_is_said_which_torch_is_needed(self):
        self.assertRegex(self.lacks(shutdown=1), r"torch [0-9.]+\S* .*accepted: torch 2.2")
        self.assertEqual(self.lacks(_shutdown=1), "")
        self.assertEqual(self.lacks(abort=1), "")
        self.assertEqual(self.lacks(at_once=1), "")


class AbandonedGroups(unittest.TestCase):
    """A rank dies while groups are made or connected: what waits for it ends."""

    def setUp(self):
        self.ended = []
        self.ranks = ranks = object.__new__(_ranks.Ranks)
        vars(ranks).update(
            _ranks=[0, 1], rank=0, size=2, timeout=60.0, device=CUDA, groups=[], stops=[],
            place=_placement.Place(CUDA, "nccl", 1, carries=True), _dropping=threading.Lock(),
            watch=mock.Mock(on_loss=lambda act: act()), _told=threading.Lock())
        ranks._new_group = lambda: "a group"
        ranks._explain = lambda position, cause: SluiceError(f"{position}: rank 1 is gone")
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        for where, name, new in (
                (torch.cuda, "set_device", mock.Mock()),
                (_groups, "unbound", contextlib.nullcontext),
                (_groups, "own_numbers", lambda _: contextlib.nullcontext()),
                (_groups, "abort", lambda group, device: self.ended.append(group))):
            stack.enter_context(mock.patch.object(where, name, new))

    def make(self):
        with self.assertRaisesRegex(SluiceError, "making process groups: rank 1 is gone"):
            self.ranks._make_groups()
        self.assertEqual(self.ended, ["a group"])
        self.assertEqual(self.ranks.groups, [])
        self.ranks.watch.say.assert_called_once()

    def test_collectives_that_connect_are_ended(self):
        inside, going = threading.Event(), threading.Event()
        self.addCleanup(going.set)

        def hangs(*_):
            inside.set()
            going.wait()

        self.ranks.watch.on_loss = lambda act: (inside.wait(), act())
        with mock.patch.object(_groups, "connect", hangs):
            self.make()

    def test_a_group_that_comes_late_is_ended_too(self):
        going, done = threading.Event(), threading.Event()
        explain = self.ranks._explain

        def late():
            going.wait()
            return "a group"

        def explained(*arguments):
            going.set()
            done.wait(10)
            return explain(*arguments)

        def ended(group, device):
            self.ended.append(group)
            done.set()

        self.ranks._new_group, self.ranks._explain = late, explained
        with mock.patch.object(_groups, "abort", ended):
            self.make()

    def test_a_failure_of_this_rank_is_told_to_the_others(self):
        for error, kind in ((MemoryError("no memory"), MemoryError),
                            (torch.cuda.OutOfMemoryError("no memory")
                             if hasattr(torch.cuda, "OutOfMemoryError") else None, SluiceError)):
            if error is None:
                continue
            self.setUp()
            self.ranks.watch = mock.Mock(doom=lambda: [])
            with mock.patch.object(_groups, "connect", side_effect=error), \
                    self.assertRaises(kind):
                self.ranks._make_groups()
            (what, position, cause), _ = self.ranks.watch.say.call_args
            self.assertIn("no memory", cause)
            self.assertEqual(self.ended, ["a group"])


if __name__ == "__main__":
    unittest.main()
