"""A process that the lab has started, and its output."""

import collections
import contextlib
import os
import signal
import subprocess
import sys

from lab_parts.system import die_with_parent, say

LINE_BYTES_MAX = 1 << 16        # A longer line is passed on in pieces.


class Stream:
    """One output of one process, passed on in whole lines."""

    def __init__(self, pipe, target, prefix, shown, awaited):
        self.pipe, self.target, self.prefix, self.shown = pipe, target, prefix, shown
        self.rest, self.tail = b"", collections.deque(maxlen=20)
        self.awaited, self.seen = awaited, awaited is None
        os.set_blocking(pipe.fileno(), False)

    def read(self):
        """Passes on what is there; False when there is nothing, for now or for ever."""
        try:
            data = os.read(self.pipe.fileno(), LINE_BYTES_MAX)
        except BlockingIOError:
            return False
        self._pass_on(data, everything=not data)
        return data != b""

    def finish(self):
        """The rest. A child that outlived its parent may hold the pipe: its end is not awaited."""
        for _ in range(32):  # More than a pipe holds.
            if not self.read():
                break
        self._pass_on(b"", everything=True)

    def _pass_on(self, data, everything):
        *lines, self.rest = (self.rest + data).split(b"\n")
        if self.rest and (everything or len(self.rest) > LINE_BYTES_MAX):
            lines.append(self.rest)
            self.rest = b""
        self.tail.extend(lines)
        self.seen = self.seen or any(self.awaited in line for line in lines)
        if lines and self.shown:
            text = b"".join(self.prefix + line + b"\n" for line in lines)
            while text:  # A signal cuts a write short, and Python's stdout may be unbuffered.
                text = text[os.write(self.target, text):]


class Process:
    """kind is rank, aggregator or relay; the prefix of its lines is its letter and index."""

    def __init__(self, kind, index, process, shown, raw=False, awaited=None):
        self.kind, self.index, self.process, self.exit = kind, index, process, None
        self.cpu_seconds = None  # User and system; known when it has ended.
        self.mark = f"{'' if kind == 'rank' else kind[0]}{index}"
        self.name, self.shown = f"{kind} {index}", shown
        prefix = b"" if raw else f"[{self.mark}] ".encode()
        awaited = None if awaited is None else awaited.encode()
        self.output = Stream(process.stdout, sys.stdout.fileno(), prefix, shown, awaited)
        self.errors = Stream(process.stderr, sys.stderr.fileno(), prefix, shown, awaited)

    @property
    def ready(self):
        return self.output.seen or self.errors.seen

    def finish(self):
        self.output.finish()
        self.errors.finish()

    def signal(self, number):
        """To it and its children; only while it is not reaped, so the group is its own."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def show_errors(self):
        """The end of what was not shown, when it is of interest after all."""
        if not self.shown:
            self.errors.finish()
            for line in self.errors.tail:
                say(f"[{self.mark}] {line.decode('utf-8', 'replace')}")


def start(command, environment, pass_fds=()):
    return subprocess.Popen(command, env=environment, pass_fds=pass_fds, bufsize=0,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True,
                            preexec_fn=die_with_parent)


def names(processes):
    """`rank 0` or `ranks 0, 2`; the processes are of one kind."""
    kind = processes[0].kind
    return f"{kind}{'s' * (len(processes) > 1)} {', '.join(str(p.index) for p in processes)}"


def how_it_ended(code):
    return f"exited with {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
