"""What the library's codes become in Python."""

import importlib.util
import unittest

from sluice import _library


class Codes(unittest.TestCase):
    def test_each_kind_of_failure_has_its_exception(self):
        _library.load()
        for code, kind in ((1, ValueError), (2, RuntimeError), (4, RuntimeError), (7, MemoryError)):
            with self.subTest(code=code), self.assertRaises(kind):
                _library.check(code)
        _library.check(0)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
    def test_the_torch_package_has_the_same_but_for_its_own_error(self):
        from sluice.torch import SluiceError, _native

        for code, kind in ((1, ValueError), (2, SluiceError), (4, SluiceError), (7, MemoryError)):
            with self.subTest(code=code), self.assertRaises(kind):
                _native.check(code)
        _native.check(0)


if __name__ == "__main__":
    unittest.main()
