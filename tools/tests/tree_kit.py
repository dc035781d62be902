"""A small tree in a temporary folder, for the tests of the tools that check trees."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent.parent
PURPOSE = "#pragma once\n// What the file is for.\n"


def header(*lines):
    return PURPOSE + "".join(line + "\n" for line in lines)


class TreeTest(unittest.TestCase):
    """A small tree in a temporary folder, and a tool to run over it."""

    tool = ""

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def write(self, files):
        for path, text in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, str(TOOLS / self.tool), *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout
