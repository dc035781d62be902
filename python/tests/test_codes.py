"""What the library's codes become in Python."""

import unittest

from sluice import _library


class Codes(unittest.TestCase):
    def test_each_kind_of_failure_has_its_exception(self):
        _library.load()
        for code, kind in ((1, ValueError), (2, RuntimeError), (4, RuntimeError), (7, MemoryError)):
            with self.subTest(code=code), self.assertRaises(kind):
                _library.check(code)
        _library.check(0)


if __name__ == "__main__":
    unittest.main()
