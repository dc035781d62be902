"""What the parts of the lab share: its voice, its exit statuses, and calls of the C library."""

import ctypes
import os
import signal
import sys

CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x20000000, 0x40000000
MS_REC, MS_PRIVATE = 1 << 14, 1 << 18
PR_SET_PDEATHSIG = 1
BAD_ARGUMENTS, NO_NAMESPACES, TIMED_OUT = 2, 3, 124  # Exit statuses; 124 is timeout(1)'s.

_libc = ctypes.CDLL(None, use_errno=True)


class Unavailable(Exception):
    """Why there can be no namespaces here, or why their links cannot be changed."""


def say(text):
    print(f"lab: {text}", file=sys.stderr, flush=True)


def refuse(text):
    say(text)
    sys.exit(BAD_ARGUMENTS)


def call(name, *arguments):
    """A function of the C library that returns 0, or OSError with its name."""
    if getattr(_libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")


def die_with_parent():
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def own_proc():
    """Gives this process, alone in a PID namespace, a /proc of that; OSError when it cannot be.

    Without, a worker sees the machine's processes, and does not find itself under its number.
    """
    call("unshare", CLONE_NEWNS)
    try:
        call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    except OSError:
        # In a chroot "/" is no mount point. Its /proc is one, and what is mounted on that must
        # not reach the machine.
        call("mount", b"none", b"/proc", None, MS_PRIVATE, None)
    call("mount", b"proc", b"/proc", b"proc", 0, None)
