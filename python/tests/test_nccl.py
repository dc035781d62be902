"""What runs over NCCL, and what ends it, over fakes of streams, events and process groups.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_nccl.py

tests/device has what needs a GPU.
"""

import ctypes
import types
import unittest
import zlib
from unittest import mock

import torch
import torch.distributed as dist
from fake_cuda import CUDA, Fakes

from sluice.torch import SluiceError, _buffers, _native, _placement, _work
from sluice.torch._nccl import NcclCollectives

HOST = torch.device("cpu")
STREAM = "the track's stream"
SIZE = 3


class Backend:
    """Of a process group in which every rank has the same bytes."""

    def __init__(self, test):
        self._test = test
        self.asked = []

    def _work(self, name, *asked):
        self._test.assertEqual(self._test.current, [STREAM])
        self._test.log.append(name)
        self.asked.append(asked)
        return types.SimpleNamespace(wait=lambda: self._test.log.append("wait"))

    def alltoall_base(self, into, source, receive, send):
        into[:min(into.numel(), source.numel())] = source[:min(into.numel(), source.numel())]
        return self._work("all-to-all", receive, send)

    def _allgather_base(self, every, mine):
        every.copy_(mine.repeat(SIZE))
        return self._work("all-gather", mine.numel())

    def allreduce(self, tensors, options):
        tensors[0].mul_(SIZE if options.reduceOp == dist.ReduceOp.SUM else 1)
        return self._work("all-reduce", tensors[0].dtype, options.reduceOp)


class OnCollectives(Fakes):
    def setUp(self):
        super().setUp()
        self.backend = Backend(self)
        self.ranks = types.SimpleNamespace(
            size=SIZE, rank=0, device=HOST, timeout=60.0, gathers_flat=True,
            place=_placement.Place(HOST, "nccl", codecs="a GPU", carries=True),
            check=lambda position: None, abort=lambda group: self.log.append("abort"))
        group = types.SimpleNamespace(_get_backend=lambda device: self.backend)
        self.made = NcclCollectives(self.ranks, group, lambda: "a test", 0, STREAM)
        for name in ("there", "back"):
            self.watch(_buffers.TwinBuffer, name)

    def watch(self, kind, name):
        act = getattr(kind, name)

        def watched(buffer, *arguments):
            if name == "back" or arguments[-1]:
                self.log.append({"there": "to device", "back": "back"}[name])
                self.assertEqual(self.current, [STREAM])
            return act(buffer, *arguments)

        patch = mock.patch.object(kind, name, watched)
        patch.start()
        self.addCleanup(patch.stop)

    def memory(self, buffer, size):
        address = self.made._reserve(None, buffer, size)
        return (ctypes.c_uint8 * size).from_address(address)

    def start(self, kind, source, target, sizes=None, count=0):
        sizes = (ctypes.c_uint64 * SIZE)(*(sizes or [0] * SIZE))
        what = _native.Collective(kind=kind, source=source, target=target, send_sizes=sizes,
                                  receive_sizes=sizes, count=count, number=7)
        return self.made._start(None, ctypes.pointer(what))

    def ask(self):
        done = ctypes.c_uint32(9)
        return self.made._test(None, ctypes.pointer(done)), done.value


class HostBytes(OnCollectives):
    """They go to the device and come back on the track's stream, and nobody waits before that."""

    def test_an_all_to_all(self):
        mine = self.memory(_native.SEND, 6)
        came = self.memory(_native.RECEIVED, 6)
        mine[:] = b"abcdef"
        self.assertEqual(self.start(_native.ALL_TO_ALL, _native.SEND, _native.RECEIVED, [1, 2, 3]),
                         0)
        self.assertEqual(self.log, ["to device", "all-to-all", "wait", "back", "record"])
        self.assertEqual(self.backend.asked, [([1, 2, 3], [1, 2, 3])])
        self.assertEqual((self.made.doing, self.made.number, self.queries),
                         ("all-to-all", 7, 0))
        self.assertEqual(self.ask(), (0, 1))
        self.assertEqual((bytes(came), self.made.doing), (b"abcdef", ""))

    def test_an_all_gather(self):
        self.memory(_native.ANSWER, 2)[:] = b"xy"
        every = self.memory(_native.GATHERED, 6)
        self.start(_native.ALL_GATHER, _native.ANSWER, _native.GATHERED, count=2)
        self.assertEqual(self.log, ["to device", "all-gather", "wait", "back", "record"])
        self.assertEqual(bytes(every), b"xyxyxy")

    def test_maxima_and_sums_of_integers(self):
        for kind, operation, factor in ((_native.MAXIMUM, dist.ReduceOp.MAX, 1),
                                        (_native.SUM, dist.ReduceOp.SUM, SIZE)):
            data = self.memory(_native.SEND, 8)
            data[:] = bytes([5, 0, 0, 0, 0, 1, 0, 0])
            self.log.clear()
            self.assertEqual(self.start(kind, _native.SEND, _native.SEND, count=2), 0)
            self.assertEqual(self.log, ["to device", "all-reduce", "wait", "back", "record"])
            self.assertEqual(self.backend.asked[-1], (torch.int32, operation))
            self.assertEqual(bytes(data), bytes([5 * factor, 0, 0, 0, 0, factor, 0, 0]))

    def test_are_asked_for_until_they_have_come(self):
        answers = [False, False, True]
        self.done = lambda: answers.pop(0)
        self.memory(_native.SEND, 3)
        self.memory(_native.RECEIVED, 3)
        self.start(_native.ALL_TO_ALL, _native.SEND, _native.RECEIVED, [1, 1, 1])
        self.assertEqual(self.ask(), (0, 0))
        self.assertEqual(self.made.doing, "all-to-all")
        self.assertEqual(self.made._wait(None, 60.0), 0)
        self.assertEqual((answers, self.made.doing), ([], ""))


class DeviceBytes(OnCollectives):
    def test_nobody_here_waits_for_them(self):
        """What follows does, on the stream; the collective stays the one in hand."""
        self.done = lambda: False
        there = _native.ON_DEVICE
        self.memory(there + _native.SEND, 3)
        self.memory(there + _native.RECEIVED, 3)
        self.start(_native.ALL_TO_ALL, there + _native.SEND, there + _native.RECEIVED, [1, 1, 1])
        self.assertEqual(self.log, ["all-to-all", "wait"])
        self.assertEqual(self.ask(), (0, 1))
        self.assertEqual(self.made._wait(None, 60.0), 0)
        self.assertEqual((self.queries, self.made.doing), (0, "all-to-all"))

    def test_sparse_ones_are_not_added_up(self):
        with self.assertRaisesRegex(SluiceError, "sparse .*float64.*accepted"):
            self.made.mean(torch.zeros(3, dtype=torch.float64).to_sparse())


class Waiting(OnCollectives):
    def setUp(self):
        super().setUp()
        self.done = lambda: False
        self.memory(_native.SEND, 3)
        self.memory(_native.RECEIVED, 3)
        self.assertEqual(
            self.start(_native.ALL_TO_ALL, _native.SEND, _native.RECEIVED, [1, 1, 1]), 0)

    def test_ends_in_time(self):
        self.assertEqual(self.made._wait(None, 0.01), 1)
        self.assertRegex(str(self.made.error), "not done within 0.01 s")
        self.assertEqual(self.made.doing, "all-to-all")

    def test_ends_when_a_rank_has_gone(self):
        def check(position):
            raise SluiceError(f"{position()}: rank 1 is gone")

        self.ranks.check = check
        self.assertEqual(self.made._wait(None, 60.0), 1)
        self.assertEqual(str(self.made.error), "a test: rank 1 is gone")

    def test_ends_by_an_interrupt_from_elsewhere(self):
        def done():
            if self.queries == 3:
                self.made.interrupt()
            return False

        self.done = done
        self.assertEqual(self.made._wait(None, 60.0), 1)
        self.assertTrue(self.made.closing)
        self.assertEqual(self.log[-1], "abort")
        self.assertRegex(str(self.made.error), "given back")

    def test_a_device_that_fails_is_no_exception_in_the_library(self):
        def done():
            raise RuntimeError("CUDA error")

        self.done = done
        self.assertEqual(self.ask(), (1, 9))
        self.assertEqual(str(self.made.error), "CUDA error")


class Failing(OnCollectives):
    def test_a_backend_that_refuses_is_an_error_of_the_callback(self):
        self.memory(_native.SEND, 3)
        self.memory(_native.RECEIVED, 3)
        with mock.patch.object(self.backend, "alltoall_base", side_effect=ValueError("no")):
            self.assertEqual(self.start(_native.ALL_TO_ALL, 0, 1, [1, 1, 1]), 1)
        self.assertEqual((str(self.made.error), self.made.doing), ("no", "all-to-all"))
        with mock.patch.object(self.backend, "alltoall_base", side_effect=ValueError("again")):
            self.start(_native.ALL_TO_ALL, 0, 1, [1, 1, 1])
        self.assertEqual(str(self.made.error), "no")

    def test_memory_that_runs_out_is_an_error_of_the_callback(self):
        with mock.patch.object(torch, "empty", side_effect=MemoryError("no memory")):
            self.assertIsNone(self.made._reserve(None, _native.SEND, 10))
        self.assertEqual(str(self.made.error), "no memory")

    def test_a_stream_that_cannot_be_used_is_an_error_of_the_callback(self):
        def refuses(stream):
            raise RuntimeError("CUDA error")

        with mock.patch.object(torch.cuda, "stream", refuses):
            self.assertIsNone(self.made._reserve(None, _native.SEND, 10))
            self.assertEqual(self.start(_native.ALL_TO_ALL, 0, 1, [1, 1, 1]), 1)
        self.assertEqual(str(self.made.error), "CUDA error")

    def test_nothing_starts_after_it_has_hung_up(self):
        self.made.hang_up()
        self.assertEqual(self.log, ["abort"])
        self.assertEqual(self.start(_native.ALL_TO_ALL, 0, 1, [0, 0, 0]), 1)
        self.assertRegex(str(self.made.error), "given back")

    def test_giving_up_and_closing(self):
        self.made.give_up()
        self.assertEqual((self.log, self.made.closing), (["abort"], False))
        self.made.close()
        self.assertIsNone(self.made.callbacks)


class Buffers(Fakes):
    def test_a_twin_has_its_bytes_twice(self):
        twin = _buffers.TwinBuffer(HOST)
        address = twin.reserve(100)
        self.assertEqual(twin.reserve(50), address)
        here = (ctypes.c_uint8 * 100).from_address(address)
        here[:] = bytes(range(100))
        there = twin.there(100, True)
        self.assertNotEqual(there.data_ptr(), address)
        self.assertEqual(bytes(there.numpy()), bytes(range(100)))
        there[:10] = 7
        self.assertEqual(bytes(here), bytes(range(100)))
        twin.back(10)
        self.assertEqual(bytes(here), bytes([7] * 10) + bytes(range(10, 100)))
        self.assertEqual(bytes(twin.there(100, False).numpy()[:10]), bytes([7] * 10))
        self.assertTrue(twin.on_host)

    def test_rooms_are_exact_and_growth_is_not(self):
        for kind in (_buffers.TwinBuffer, _buffers.DeviceBuffer):
            buffer = kind(HOST)
            buffer.make_room(1000)
            before = buffer.reserve(1000)
            self.assertEqual(buffer.size, 1000)
            buffer.make_room(10)
            self.assertEqual(buffer.reserve(1000), before)
            buffer.reserve(1001)
            self.assertEqual(buffer.size, 1251)
            buffer.reserve(2000, True)
            self.assertEqual(buffer.size, 2000)
        self.assertFalse(_buffers.DeviceBuffer(HOST).on_host)


class Digests(Fakes):
    """Of what is on a device, by memory that was taken before."""

    def test_parts_are_copied_and_waited_for_in_turn(self):
        with mock.patch.object(_buffers, "READ_BYTES", 4):
            reader = _buffers.Reader()
            with mock.patch.object(torch, "empty", side_effect=AssertionError("memory is taken")):
                seen = []
                for arrived, part in reader.parts(torch.arange(10, dtype=torch.uint8)):
                    self.log.append("part")
                    arrived.synchronize()
                    seen.append(bytes(part.numpy()))
        self.assertEqual(seen, [bytes(range(4)), bytes(range(4, 8)), bytes([8, 9])])
        self.assertEqual(self.log, ["record", "part", "synchronize"] * 3)

    def test_a_digest_is_of_all_bytes_wherever_they_are(self):
        values = torch.arange(1000, dtype=torch.float32)
        work = _work.BucketWork(3, values, values, 0)
        bytes_of = values.view(torch.uint8)

        def read(part):
            self.assertIs(part, values)
            yield from bytes_of.split(333)

        track = types.SimpleNamespace(collectives=types.SimpleNamespace(read=read))
        self.assertEqual(work.digest(track), zlib.crc32(bytes_of.numpy(), 3))


if __name__ == "__main__":
    unittest.main()
