"""Calls the command line and makes .npy files without NumPy."""

import json
import os
import struct
import subprocess
import tempfile
import unittest

SLUICE = os.environ["SLUICE"]
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "gpt-step300")


def npy_bytes(values, shape=None, descr="<f4", fortran=False):
    """A version 1.0 file of the values, as NumPy writes it."""
    shape = (len(values),) if shape is None else shape
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape!r}, }}"
    pad = 64 - (10 + len(header) + 1) % 64
    header = header + " " * (pad % 64) + "\n"
    code = {"<f2": "e", "<f4": "f", "<f8": "d", "<i4": "i"}[descr]
    data = struct.pack(f"<{len(values)}{code}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def read_npy(path):
    """Shape text and float32 values of a file that the command line wrote."""
    with open(path, "rb") as file:
        content = file.read()
    size = struct.unpack("<H", content[8:10])[0]
    header = content[10 : 10 + size].decode()
    data = content[10 + size :]
    return header, struct.unpack(f"<{len(data) // 4}f", data)


def read_table(text):
    """Column names and rows of `bench allreduce`, all as words."""
    lines = text.splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    headers = [line[1:].split() for line in lines if line[1:].split()[:1] == ["size"]]
    return headers[0], rows


class CliTest(unittest.TestCase):
    """A scratch folder, and calls that check the exit status."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def workers(self, *vectors, **options):
        return [
            self.write(f"w{i}.npy", npy_bytes(v, **options)) for i, v in enumerate(vectors)
        ]

    def call(self, *arguments, status=0, env=None):
        done = subprocess.run(
            [SLUICE, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(env or {})},
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def refused(self, *arguments, says=()):
        """Exit 2, one line on standard error that names every word of `says`."""
        done = self.call(*arguments, status=2)
        lines = done.stderr.strip().splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        for word in says:
            self.assertIn(word, lines[0])
        return lines[0]

    def stats(self, *arguments):
        self.call(*arguments, "--json", self.path("stats.json"))
        with open(self.path("stats.json"), encoding="utf-8") as file:
            return json.load(file)
