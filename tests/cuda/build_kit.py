"""The build that is tested, and programs made from it."""

import functools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD", ROOT / "build/release"))
LIBRARY = BUILD / "libsluice_cuda.so"
MADE = BUILD / "cuda"


@functools.cache
def configured():
    """nvcc, flags, architectures and the newest of them; None: a build without CUDA."""
    file = MADE / "build.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


needs_cuda = unittest.skipUnless(configured(), f"{BUILD} was configured without CUDA")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **options)


def nvcc(*arguments, without=()):
    """Runs it with the flags of the build for the newest architecture; some may be left out."""
    build = configured()
    flags = [flag for flag in build["flags"] if flag not in without]
    return run(build["nvcc"], *flags, f"-arch=compute_{build['newest']}", *arguments)


@functools.cache
def lines_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8").splitlines()


class Scratch(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def succeed(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout
