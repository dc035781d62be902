"""Where the training lab is, and the tests of tools/lab, whose `support` these tests share."""

import pathlib
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("bench", "tools", "tests/lab"):
    sys.path.insert(0, str(ROOT / folder))
