"""Changes the rate of the lab's links from within, while the workers run.

    python3 tools/lab_parts/control.py rate 83.2mbit

or, with tools/ in sys.path, `from lab_parts.control import set_rate`. SLUICE_LAB_CONTROL in the
environment is all it needs, however far below the worker the process is. docs/lab.md says more.
"""

import contextlib
import fcntl
import os
import secrets
import select
import stat
import sys
import time

VARIABLE = "SLUICE_LAB_CONTROL"
REQUEST_BYTES_MAX = 256         # Without the end of the line.
TEXT_BYTES_MAX = 200            # Of a request, beside what the client adds.
TIMEOUT_S = 20.0                # To change 64 links took up to 2.4 s beside other jobs.
USAGE = "control.py rate RATE, as rate 83.2mbit or rate unlimited"


def set_rate(text, timeout_s=TIMEOUT_S):
    """Returns when all links have the rate; RuntimeError with what the lab says, or did not."""
    request = f"rate {text}"
    if len(request) > TEXT_BYTES_MAX or not (request.isascii() and request.isprintable()):
        raise RuntimeError(f"{text[:TEXT_BYTES_MAX]!r}: accepted is one line of ASCII, at most "
                           f"{TEXT_BYTES_MAX} bytes with 'rate '")
    kind, _, what = _ask(request, timeout_s).partition(" ")
    if kind != "ok":
        raise RuntimeError(what)


def _ask(request, timeout_s):
    """The lab's answer to it, of all that the lab may be saying to others."""
    paths = os.environ.get(VARIABLE, "").split(":")
    if len(paths) != 2:
        raise RuntimeError(f"environment variable {VARIABLE} is '{os.environ.get(VARIABLE, '')}'; "
                           "accepted is what tools/lab gives its workers, REQUESTS:ANSWERS")
    deadline, tag = time.monotonic() + timeout_s, f" #{secrets.token_hex(8)}"
    late = f"'{request}' was not answered by the lab after {timeout_s:g} s"
    with _opened(paths[0], os.O_WRONLY) as requests, _opened(paths[1], os.O_RDONLY) as answers:
        _lock(requests, deadline, late)  # Or others would take the answer out of the pipe.
        _empty(answers)
        _await(requests, select.POLLOUT, deadline, late)
        # The first end is that of what someone may have left without one.
        os.write(requests, f"\n{request}{tag}\n".encode("ascii"))
        rest = b""
        while True:
            _await(answers, select.POLLIN, deadline, late)
            with contextlib.suppress(BlockingIOError):  # Someone else was faster.
                data = os.read(answers, 1 << 12)
                if not data:
                    raise RuntimeError(f"'{request}': the lab has ended")
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    answer = line.decode("ascii", "replace")
                    if answer.endswith(tag):
                        return answer.removesuffix(tag)


@contextlib.contextmanager
def _opened(path, mode):
    try:
        descriptor = os.open(path, mode | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(f"environment variable {VARIABLE}: cannot open {path}: "
                           f"{error.strerror}; has the lab ended?") from None
    try:
        # After the lab's end the number may be that of another process.
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise RuntimeError(f"environment variable {VARIABLE}: {path} is no pipe; has the lab "
                               "ended?")
        yield descriptor
    finally:
        os.close(descriptor)


def _empty(answers):
    """Of what was said to those who did not wait for it."""
    with contextlib.suppress(BlockingIOError):
        while os.read(answers, 1 << 16):
            pass


def _lock(descriptor, deadline, late):
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{late}: others are asking") from None
            time.sleep(0.01)


def _await(descriptor, event, deadline, late):
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
        raise RuntimeError(late)


def main(argv):
    if len(argv) != 2 or argv[0] != "rate":
        print(f"control: '{' '.join(argv)}': accepted is {USAGE}", file=sys.stderr)
        return 2
    try:
        set_rate(argv[1])
    except RuntimeError as error:
        print(f"control: {error}", file=sys.stderr)
        return 1
    print(f"ok {argv[1].lower()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
