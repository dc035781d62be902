"""What the tests of tools/lab share: a lab with given options, its result, and its processes."""

import ctypes
import glob
import json
import math
import os
import pathlib
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LAB = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "lab"
LIMIT_S = 60  # No wait of a test is longer.
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21

BLOCK = "import signal; print('ready', flush=True); signal.pause()"

# A child in a session of its own, whose parent ends: what is hardest to find again.
FAMILY = ("import os, signal, sys\n"
          "if os.fork() == 0:\n    os.setsid()\n    signal.pause()\n"
          "print('ready', flush=True)\nsignal.pause()\n")

SEND_5_MB = """
import os, socket, struct, time
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(at) as server:
        connection, peer = server.accept()
        size = 0
        while data := connection.recv(1 << 16):
            size += len(data)
        connection.sendall(b"!")
        print("got", size, "from", peer[0])
else:
    deadline = time.monotonic() + 30
    while True:
        try:
            connection = socket.create_connection(at, timeout=30)
            break
        except ConnectionRefusedError:  # Rank 0 does not listen yet.
            if time.monotonic() > deadline:
                raise
    connection.sendall(bytes(5_000_000))
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b"!"
    name = os.environ["SLUICE_LAB_INTERFACE"]
    line = next(line for line in open("/proc/net/dev") if name + ":" in line)
    print("counter", line.split()[9])
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 216)
    print("tcp sent", struct.unpack_from("Q", info, 200)[0])  # With what it sent again.
"""

# A stand-in for an aggregator: returns every datagram, counts them, and ends on SIGTERM with 0.
ECHO = """
import os, select, signal, socket, sys
at = os.environ["SLUICE_LAB_ADDRESS"], int(os.environ["SLUICE_LAB_PORT"])
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(at)
wake, wake_write = socket.socketpair()
wake_write.setblocking(False)
signal.set_wakeup_fd(wake_write.fileno())
signal.signal(signal.SIGTERM, lambda *_: None)
print("listening", flush=True)
peers = {}
while wake not in select.select([server, wake], [], [])[0]:
    data, peer = server.recvfrom(65536)
    peers[peer] = peers.get(peer, 0) + 1
    if data.startswith(b"exit "):
        sys.exit(int(data[5:]))
    server.sendto(data, peer)
print("terminated after", *sorted(peers.values()), flush=True)
"""

# What a worker begins with to use the aggregators.
OPEN = """
import os, socket, sys
rank = os.environ["RANK"]
pairs = [text.rpartition(":") for text in os.environ["SLUICE_AGGREGATORS"].split(",")]
aggregators = [(host, int(port)) for host, _, port in pairs]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
"""


def python(code, *arguments):
    """As --aggregator-command takes it."""
    return shlex.join([sys.executable, "-c", code, *map(str, arguments)])


def binomial_range(count, chance, tail=1e-9):
    """(low, high): of count tries with this chance, fewer or more succeed with at most `tail`."""
    if chance in (0, 1):
        return count * chance, count * chance

    def probability(k):
        return math.exp(math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
                        + k * math.log(chance) + (count - k) * math.log1p(-chance))

    def end(numbers):
        total = 0.0
        for k in numbers:
            total += probability(k)
            if total > tail:
                return k
        raise AssertionError("probabilities do not sum to 1")
    return end(range(count + 1)), end(range(count, -1, -1))


def command(*options, code="", arguments=()):
    return [sys.executable, str(LAB), *map(str, options), "--", sys.executable, "-c", code,
            *map(str, arguments)]


def without_sys_admin():
    """Root, but with no right to make namespaces."""
    if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) != 0:
        raise OSError("prctl")


def what_is_missing():
    """(why there can be no namespaces here, why workers cannot have a /proc of their own)"""
    done = subprocess.run(command("--workers", 1, "--require-namespaces"), timeout=LIMIT_S,
                          capture_output=True, text=True, check=False)
    said = done.stderr.strip()
    return (said if done.returncode == 3 else "",
            "".join(line for line in said.splitlines() if "no /proc of its own" in line))


def keep_datagrams_in_order():
    """For a module's tests and all that they start: one processor.

    Each processor has a queue of what arrives. A sender that is moved from one to another while the
    first is busy has its later datagrams arrive before its earlier ones.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    unittest.addModuleCleanup(os.sched_setaffinity, 0, before)


WHY_NOT, WHY_NO_PROC = what_is_missing()
needs_namespaces = unittest.skipIf(WHY_NOT, WHY_NOT)
needs_own_proc = unittest.skipIf(WHY_NO_PROC, WHY_NO_PROC)


class LabTest(unittest.TestCase):
    env, preexec = {}, None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.json = self.folder / "lab.json"

    def lab(self, *options, code="", arguments=(), status=0):
        done = subprocess.run(command("--json", self.json, *options, code=code,
                                      arguments=arguments),
                              capture_output=True, text=True, check=False, timeout=LIMIT_S,
                              env=os.environ | self.env, preexec_fn=self.preexec)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def result(self):
        return json.loads(self.json.read_text(encoding="utf-8"))

    def popen(self, *options, code):
        def preexec():
            for number in (signal.SIGINT, signal.SIGHUP):  # Ignored where nohup runs the tests.
                signal.signal(number, signal.SIG_DFL)
            if self.preexec:
                self.preexec()
        lab = subprocess.Popen(command(*options, code=code), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=os.environ | self.env,
                               preexec_fn=preexec)
        for clean_up in (lab.wait, lab.stdout.close, lab.stderr.close, lab.kill):
            self.addCleanup(clean_up)  # In reverse. What holds the pipes is not awaited.
        return lab

    def start(self, *options, code=BLOCK, worker_count=2, lines=("ready",)):
        """A lab whose workers have all said these lines, with the last that they are ready."""
        lab = self.popen("--workers", worker_count, *options, code=code)
        said = sorted(lab.stdout.readline() for _ in range(worker_count * len(lines)))
        self.assertEqual(said, sorted(f"[{rank}] {line}\n" for rank in range(worker_count)
                                      for line in lines))
        return lab


def children(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            text = pathlib.Path(path).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        if int(text.rpartition(")")[2].split()[1]) == pid:
            found.append(int(path.split("/")[2]))
    return found


def descendants(pid):
    return [p for child in children(pid) for p in (child, *descendants(child))]


def is_alive(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"  # Whoever inherits it has to reap it.


def not_ended(descriptors):
    """How many of these processes did not end in time."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    left, deadline = set(descriptors), time.monotonic() + LIMIT_S
    while left and time.monotonic() < deadline:
        for descriptor, _ in poll.poll(1000):
            poll.unregister(descriptor)
            os.close(descriptor)
            left.remove(descriptor)
    return len(left)


def namespaces_of(processes):
    """Network namespaces that these processes are in, without the one that this process is in."""
    return {os.readlink(f"/proc/{pid}/ns/net") for pid in processes} - \
        {os.readlink("/proc/self/ns/net")}


def namespaces_in_use():
    """Network namespaces that any process is in or holds open."""
    found = set()
    for pattern in ("/proc/[0-9]*/ns/net", "/proc/[0-9]*/fd/*"):
        for path in glob.glob(pattern):
            try:
                found.add(os.readlink(path))
            except OSError:
                continue
    return {name for name in found if name.startswith("net:")}
