"""The lab's end of SLUICE_LAB_CONTROL: a worker asks in a line and is answered in a line.

Two pipes without names: a process in the lab, however far down, opens them through /proc, and with
the lab they are gone. Nothing that comes in, and nobody who does not read, holds the lab or ends
it.
"""

import argparse
import contextlib
import os

from lab_parts.control import REQUEST_BYTES_MAX
from lab_parts.system import Unavailable

ACCEPTED = "accepted is 'rate RATE', as rate 83.2mbit or rate unlimited"
TOO_LONG = object()


class Lines:
    """Bytes in, lines out, at any cut; a line that is too long is told of once and left out."""

    def __init__(self):
        self._rest, self._skipping = b"", False

    def add(self, data):
        self._rest += data

    def __bool__(self):
        """Whether next() has something."""
        return b"\n" in self._rest or len(self._rest) > REQUEST_BYTES_MAX

    def next(self):
        """A line without its end, TOO_LONG, or None: there is none yet."""
        line, end, rest = self._rest.partition(b"\n")
        skipping, too_long = self._skipping, len(line) > REQUEST_BYTES_MAX
        if not end and not skipping and not too_long:
            return None
        self._rest, self._skipping = rest, not end
        if skipping:
            return None
        return TOO_LONG if too_long else line


class Control:
    """set_rate takes what was asked for and returns what was applied, or raises why not."""

    def __init__(self, set_rate):
        self._set_rate, self._lines = set_rate, Lines()
        # Both ends of both are held: there is always a reader and a writer, whoever comes and goes.
        self.requests, requests_write = os.pipe()
        answers_read, self._answers = os.pipe()
        for descriptor in (self.requests, self._answers):  # Those that others open may block.
            os.set_blocking(descriptor, False)
        process = os.readlink("/proc/self")  # This process as the workers' /proc knows it.
        self.paths = ":".join(f"/proc/{process}/fd/{descriptor}"
                              for descriptor in (requests_write, answers_read))

    def read(self):
        """Takes what is there, unless there is enough to do already; True: go on watching."""
        if not self._lines:
            with contextlib.suppress(BlockingIOError):  # A worker may have read it.
                self._lines.add(os.read(self.requests, REQUEST_BYTES_MAX))
        return True

    @property
    def pending(self):
        return bool(self._lines)

    def answer_one(self):
        line = self._lines.next()
        if line is TOO_LONG or line:  # An empty one only ends what someone left without an end.
            # Below PIPE_BUF, so whole or not at all; not at all where nobody reads.
            with contextlib.suppress(BlockingIOError):
                os.write(self._answers, f"{self._answer(line)}\n".encode("ascii"))

    def _answer(self, line):
        if line is TOO_LONG:
            return f"error request of more than {REQUEST_BYTES_MAX} bytes: {ACCEPTED}"
        text = ascii(line.decode("latin-1"))[1:-1]  # Whatever it was, one line that can be shown.
        words = text.split()
        tag = f" {words.pop()}" if words and words[-1].startswith("#") else ""
        if len(words) != 2 or words[0] != "rate":
            return f"error '{' '.join(words)}': {ACCEPTED}{tag}"
        try:
            return f"ok {self._set_rate(words[1])}{tag}"
        except (argparse.ArgumentTypeError, Unavailable) as why:
            return f"error {why}{tag}"
