"""Fakes of CUDA's streams and events, for tests without a GPU."""

import contextlib
import unittest
from unittest import mock

import torch

CUDA = torch.device("cuda", 1)


class Event:
    """Of a device that is done when `done` says so."""

    def __init__(self, fakes):
        self._fakes = fakes

    def record(self, stream=None):
        self._fakes.log.append("record" if stream is None else f"record on {stream}")

    def query(self):
        self._fakes.queries += 1
        return self._fakes.done()

    def synchronize(self):
        self._fakes.log.append("synchronize")


class Fakes(unittest.TestCase):
    """In `log` is what was done, in its order."""

    def setUp(self):
        self.log, self.queries, self.done = [], 0, lambda: True
        self.current = []
        empty = torch.empty

        @contextlib.contextmanager
        def stream(one):
            self.current.append(one)
            try:
                yield
            finally:
                self.current.pop()

        for where, name, fake in (
                (torch.cuda, "Event", lambda: Event(self)), (torch.cuda, "stream", stream),
                (torch.cuda, "current_stream", lambda device=None: f"the stream of {device}"),
                (torch, "empty", lambda *size, pin_memory=False, **more: empty(*size, **more))):
            patch = mock.patch.object(where, name, fake)
            patch.start()
            self.addCleanup(patch.stop)
