"""The caller's GPU, which calls into the library leave as it was."""

import ctypes
import unittest
from unittest import mock

import torch

from sluice.torch import _native


class CurrentDevice(unittest.TestCase):
    """The library makes its GPU the current one; the caller's stays what it was."""

    def setUp(self):
        self.current, self.made = 0, []
        for name, fake in (("is_initialized", lambda: True), ("current_device", self.get),
                           ("set_device", self.set), ("_maybe_exchange_device", self.set)):
            patch = mock.patch.object(torch.cuda, name, fake, create=True)
            patch.start()
            self.addCleanup(patch.stop)

    def get(self):
        return self.current

    def set(self, device):
        self.current = device
        self.made.append(device)

    def library(self, result):
        self.current = 1
        if isinstance(result, Exception):
            raise result
        return result

    def test_is_what_it_was_after_a_call(self):
        call = _native._in_place(self.library)
        self.assertEqual((call(7), self.current, self.made), (7, 0, [0]))
        with self.assertRaises(ValueError):
            call(ValueError())
        self.assertEqual(self.current, 0)

    def test_is_not_looked_for_where_cuda_is_not_used(self):
        with mock.patch.object(torch.cuda, "is_initialized", return_value=False), \
                mock.patch.object(torch.cuda, "current_device", side_effect=AssertionError):
            self.assertEqual(_native._in_place(self.library)(7), 7)
        self.assertEqual(self.made, [])

    def test_is_restored_by_all_functions_that_may_use_a_device(self):
        for name in _native._SIGNATURES:
            found = getattr(_native.lib(), name)
            self.assertEqual(isinstance(found, ctypes._CFuncPtr),
                             not name.startswith(("sluice_device", "sluice_memory", "sluice_port",
                                                  "sluice_queue_free")), name)
        memory = _native.Memory(0, 2, 0, "none")
        self.assertEqual(self.made, [0])
        memory.end_step()
        del memory
        self.assertEqual(self.made, [0, 0, 0])


if __name__ == "__main__":
    unittest.main()
