"""What happens to buckets on a device at their end, and when a rank has gone: over fakes.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_ends.py
"""

import threading
import types
import unittest
from unittest import mock

import torch
from fake_cuda import CUDA, Event, Fakes

from sluice.torch import SluiceError, _native, _parts, _placement, _ranks, _tracks, _work

STREAM = "the track's stream"


class Buckets(Fakes):
    def bucket(self):
        buffer = types.SimpleNamespace(is_cuda=True, device=CUDA)
        with mock.patch.object(torch.futures, "Future", lambda devices: Future(self, devices)):
            return _work.BucketWork(0, "the result", buffer, 5)

    def test_are_ready_when_the_stream_that_they_are_on_says_so(self):
        """The thread's current device may be another."""
        self.bucket()
        self.assertEqual(self.log, ["record on the stream of cuda:1"])

    def test_are_completed_once_under_the_stream_that_wrote_them(self):
        """Torch records an event for what is in the value, on the current stream."""
        bucket = self.bucket()
        bucket.stream = STREAM
        bucket.complete(None)
        bucket.complete(RuntimeError("too late"))
        self.assertEqual(bucket._done.given, [("the result", [STREAM])])
        self.assertEqual(bucket._result(), "the result")

    def test_an_error_has_no_value(self):
        bucket = self.bucket()
        bucket.stream = STREAM
        bucket.complete(SluiceError("gone"))
        self.assertEqual([value for value, _ in bucket._done.given], [None])
        with self.assertRaisesRegex(SluiceError, "gone"):
            bucket._result()


class Future:
    def __init__(self, test, devices):
        self._test, self.devices, self.given = test, devices, []

    def set_result(self, value):
        self.given.append((value, list(self._test.current)))


class Ends(unittest.TestCase):
    """What is stopped, aborted and told when something fails, and in which order."""

    def setUp(self):
        self.log = []

    def ranks(self, place, doomed=False):
        def explain(name):
            return lambda position, cause, hang_up: (self.log.append(name),
                                                     SluiceError(f"{name}: {cause}"))[1]
        return types.SimpleNamespace(
            place=place, lost=explain("lost"), failed=explain("failed"), stops=[],
            watch=types.SimpleNamespace(doom=lambda: ["a word"] if doomed else []),
            stop=lambda: self.log.append("stop"))

    def track(self, ranks, cause=None):
        track = object.__new__(_tracks.Track)
        vars(track).update(
            ranks=ranks, index=0, aggregators=None, _turn="", stream=None,
            collectives=types.SimpleNamespace(error=cause, closing=False, doing="all-to-all",
                                              number=0, hang_up=lambda: self.log.append("hang up")),
            steps=types.SimpleNamespace(failing=threading.Event(), is_echo=lambda: False,
                                        position=lambda number: "step 1", error=None,
                                        fail=lambda *_: self.log.append("fail")))
        return track

    def of_port(self, place, error, doomed=False, cause=None):
        self.log.clear()
        return self.track(self.ranks(place, doomed), cause).of_port(error)

    def test_a_time_out_of_the_library_means_a_lost_rank_on_every_device(self):
        device = types.SimpleNamespace(on_device=True, carries=False)
        for place in (device, types.SimpleNamespace(on_device=True, carries=True)):
            self.of_port(place, _native.TimedOut("step timed out"))
            self.assertEqual(self.log, ["lost"])
        self.of_port(device, _native.Unavailable("device: given up"), doomed=True)
        self.assertEqual(self.log, ["lost"])
        for place, error in ((device, SluiceError("io")),
                             (_placement.Place(), _native.TimedOut("step timed out"))):
            self.assertIs(self.of_port(place, error), error)
            self.assertEqual(self.log, [])

    @unittest.skipUnless(hasattr(torch.cuda, "OutOfMemoryError"), "torch does not tell it apart")
    def test_memory_of_the_device_that_runs_out_is_this_ranks_failure(self):
        place = types.SimpleNamespace(on_device=True, carries=True)
        error = torch.cuda.OutOfMemoryError("CUDA out of memory")
        self.of_port(place, SluiceError("callback"), cause=error)
        self.assertEqual(self.log, ["failed"])
        self.of_port(place, SluiceError("callback"), cause=RuntimeError("connection closed"))
        self.assertEqual(self.log, ["lost"])

        def runs_out(track, number):
            track.collectives.doing = "all-reduce"
            raise error

        self.log.clear()
        with self.assertRaisesRegex(SluiceError, "CUDA out of memory"):
            self.track(self.ranks(place)).turn(types.SimpleNamespace(where="a turn", run=runs_out),
                                               0)
        self.assertEqual(self.log, ["failed"])

    def test_ports_are_stopped_before_anybody_gets_a_failure(self):
        track = self.track(self.ranks(types.SimpleNamespace(on_device=True, carries=True)))
        server = object.__new__(_tracks.Server)
        vars(server).update(tracks=[track], _ranks=track.ranks, _steps=track.steps)
        server._fail(SluiceError("lost"))
        self.assertEqual(self.log, ["stop", "fail", "hang up"])

    def test_a_group_is_aborted_once_and_only_when_nothing_is_decoded_any_more(self):
        ranks = object.__new__(_ranks.Ranks)
        vars(ranks).update(groups=["a group"], _dropping=threading.Lock(), device=CUDA,
                           stops=[lambda: self.log.append("stop")])
        with mock.patch.object(_ranks._groups, "abort",
                               lambda group, device: self.log.append((group, device))):
            ranks.abort("a group")
            ranks.abort("a group")
        self.assertEqual(self.log, ["stop", ("a group", CUDA), "stop"])

    def test_a_group_that_cannot_be_aborted_is_gone_all_the_same(self):
        ranks = object.__new__(_ranks.Ranks)
        vars(ranks).update(groups=["a group"], _dropping=threading.Lock(), device=CUDA, stops=[])
        with mock.patch.object(_ranks._groups, "abort", side_effect=RuntimeError):
            ranks.abort("a group")
        self.assertEqual(ranks.groups, [])


class Losses(unittest.TestCase):
    """Parts.give_up: when a rank has gone."""

    def give_up(self, busy=True, told=False):
        log = []

        def check(position):
            raise SluiceError(f"{position()}: rank 1 is gone")

        steps = mock.Mock(is_busy=lambda: busy, failing=mock.Mock(wait=lambda seconds: told))
        steps.fail = lambda position, error: log.append((position, str(error)))
        collectives = types.SimpleNamespace(give_up=lambda: log.append("abort"), error=None,
                                            doing="")
        track = types.SimpleNamespace(position="step 3, bucket 1", collectives=collectives)
        parts = object.__new__(_parts.Parts)
        vars(parts).update(steps=steps, tracks=[track])
        parts.give_up(types.SimpleNamespace(place=types.SimpleNamespace(is_cuda=False),
                                            stop=lambda: log.append("stop"), check=check))
        return log

    def test_the_step_fails_once_all_is_stopped(self):
        self.assertEqual(self.give_up(), ["stop", "abort", (
            "step 3, bucket 1", "step 3, bucket 1: rank 1 is gone")])

    def test_a_track_that_knows_more_says_so(self):
        self.assertEqual(self.give_up(told=True), ["stop", "abort"])

    def test_at_rest_nothing_fails(self):
        self.assertEqual(self.give_up(busy=False), ["stop", "abort"])


if __name__ == "__main__":
    unittest.main()
