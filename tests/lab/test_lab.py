"""tools/lab: what workers find, what is counted and limited, how it ends, what it leaves behind.

    tests/lab/run
"""

import contextlib
import ctypes
import glob
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
LAB = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "lab"
LIMIT_S = 60  # No wait of a test is longer.
PR_CAPBSET_DROP, CAP_SYS_ADMIN = 24, 21

BLOCK = "import signal; print('ready', flush=True); signal.pause()"

SEND_5_MB = """
import os, socket, time
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
"""


def command(*options, code="", arguments=()):
    return [sys.executable, str(LAB), *map(str, options), "--", sys.executable, "-c", code,
            *map(str, arguments)]


def without_sys_admin():
    """Root, but with no right to make namespaces."""
    if ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) != 0:
        raise OSError("prctl")


def why_no_namespaces():
    done = subprocess.run(command("--workers", 1, "--require-namespaces"), timeout=LIMIT_S,
                          capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode == 3 else ""


WHY_NOT = why_no_namespaces()
needs_namespaces = unittest.skipIf(WHY_NOT, WHY_NOT)


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

    def start(self, *options, code=BLOCK, worker_count=2):
        """A lab whose workers have all said that they are ready."""
        lab = self.popen("--workers", worker_count, *options, code=code)
        lines = sorted(lab.stdout.readline() for _ in range(worker_count))
        self.assertEqual(lines, [f"[{rank}] ready\n" for rank in range(worker_count)])
        return lab


class Arguments(LabTest):
    def refused(self, *arguments, says):
        done = subprocess.run([sys.executable, str(LAB), *arguments], capture_output=True,
                              text=True, check=False, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)

    def test_bad_values_are_named_with_what_is_accepted(self):
        for option, value, accepted in (
                ("--workers", "0", "1 to 64"), ("--workers", "65", "1 to 64"),
                ("--workers", "two", "1 to 64"), ("--workers", "-1", "1 to 64"),
                ("--rate", "1gb", "gbit"), ("--rate", "fast", "unlimited"),
                ("--rate", "0gbit", "1kbit"), ("--rate", "2000gbit", "1000gbit"),
                ("--rate", "-1gbit", "gbit"), ("--rate", "gbit", "gbit"),
                ("--mtu", "575", "576 to 65535"), ("--timeout", "soon", "seconds"),
                ("--timeout", "nan", "seconds"), ("--grace", "1e9", "seconds")):
            with self.subTest(f"{option} {value}"):
                self.refused(f"{option}={value}", "--", "true", says=[option, value, accepted])

    def test_no_command_and_unknown_option(self):
        self.refused("--workers", "2", says=["COMMAND"])
        self.refused("--workers", "2", "--", says=["COMMAND"])
        self.refused("--wrong", "--", "true", says=["--wrong"])
        self.refused("stray", "--", "true", says=["stray"])

    def test_json_that_cannot_be_written(self):
        self.refused("--json", "/proc/nothing/x", "--", "true", says=["/proc/nothing/x"])

    def test_help(self):
        done = subprocess.run([str(LAB), "--help"], capture_output=True, text=True, check=True)
        for option in ("--workers", "--rate", "--require-namespaces", "COMMAND"):
            self.assertIn(option, done.stdout)


class Outcomes:
    """How it ends and what it shows: the same in namespaces and on loopback."""

    def test_all_succeed(self):
        self.lab("--workers", 3, "--port-auto")
        result = self.result()
        self.assertEqual(result["mode"], self.mode)
        self.assertEqual(result["status"], 0)
        self.assertGreater(result["seconds"], 0)
        self.assertEqual([(w["rank"], w["exit"]) for w in result["workers"]],
                         [(0, 0), (1, 0), (2, 0)])

    def test_output_is_prefixed_line_by_line_and_kept_apart(self):
        code = ("import os, sys; r = os.environ['RANK']; print('a' + r); print('b' + r, end='');"
                "print('c' + r, file=sys.stderr)")
        done = self.lab("--workers", 2, code=code)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] a0", "[0] b0", "[1] a1", "[1] b1"])
        self.assertTrue(done.stdout.endswith("\n"))
        self.assertTrue({"[0] c0", "[1] c1"} <= set(done.stderr.splitlines()))
        done = self.lab("--workers", 2, "--quiet", code=code)
        self.assertEqual(done.stdout, "[0] a0\n[0] b0\n")
        self.assertNotIn("c1", done.stderr)
        done = self.lab("--workers", 2, "--quiet", "--raw", code=code)
        self.assertEqual(done.stdout, "a0\nb0\n")

    def test_much_output_arrives_whole_though_signals_cut_writes_short(self):
        self.env = {"PYTHONUNBUFFERED": "1"}  # Python then does not write the rest by itself.
        code = "import sys; sys.stdout.write('ready\\n' + ('x' * 9999 + '\\n') * 200)"
        lab = self.popen("--workers", 1, "--raw", code=code)
        data = os.read(lab.stdout.fileno(), 1)
        first = children(lab.pid)[0]
        while chunk := os.read(lab.stdout.fileno(), 1 << 14):
            data += chunk
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, signal.SIGCHLD)
        self.assertEqual(data, b"ready\n" + (b"x" * 9999 + b"\n") * 200)

    def test_first_failing_rank_decides_and_is_named(self):
        # Rank 1 fails once rank 0 is ready to answer SIGTERM with another status.
        fifo = self.folder / "ready"
        os.mkfifo(fifo)
        code = ("import os, signal, sys\n"
                "if os.environ['RANK'] == '1':\n"
                "    open(sys.argv[1]).read(1)\n"
                "    print('because', file=sys.stderr)\n"
                "    sys.exit(7)\n"
                "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
                "open(sys.argv[1], 'w').write('!')\n"
                "signal.pause()\n")
        done = self.lab("--workers", 2, "--grace", 0, "--quiet", code=code, arguments=[fifo],
                        status=7)
        self.assertIn("lab: rank 1 exited with 7\n", done.stderr)
        self.assertIn("lab: [1] because\n", done.stderr)
        self.assertIn("ending rank 0\n", done.stderr)
        self.assertEqual([w["exit"] for w in self.result()["workers"]], [9, 7])
        self.assertEqual(self.result()["status"], 7)

    def test_death_by_signal_is_named(self):
        done = self.lab("--workers", 2, "--grace", 30, status=128 + signal.SIGSEGV,
                        code="import os, signal\nif os.environ['RANK'] == '1':\n"
                             "    os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertIn("lab: rank 1 was ended by SIGSEGV\n", done.stderr)
        self.assertEqual([w["exit"] for w in self.result()["workers"]], [0, 139])

    def test_time_out_names_the_ranks_and_ends_the_stubborn(self):
        code = ("import os, signal, sys\nif os.environ['RANK'] == '1':\n    sys.exit()\n"
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "while True:\n    signal.pause()")
        done = self.lab("--workers", 3, "--timeout", "1", code=code, status=124)
        self.assertIn("time-out after 1 s; still running: ranks 0, 2\n", done.stderr)
        self.assertEqual([w["exit"] for w in self.result()["workers"]], [137, 0, 137])

    def test_command_that_cannot_be_run(self):
        for name, status in (("/nothing/here", 127), (str(self.folder), 126)):
            done = subprocess.run([sys.executable, str(LAB), "--", name], capture_output=True,
                                  env=os.environ | self.env, text=True, check=False,
                                  timeout=LIMIT_S, preexec_fn=self.preexec)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(f"lab: cannot run '{name}': ", done.stderr)

    def test_a_child_left_behind_does_not_hold_the_lab(self):
        code = ("import subprocess, sys; subprocess.Popen([sys.executable, '-c',"
                "'import signal; signal.pause()']); print('gone', end='')")
        self.assertEqual(self.lab("--workers", 1, code=code).stdout, "[0] gone\n")

    def test_signals_end_all_workers(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                lab = self.start()
                processes = descendants(lab.pid)
                lab.send_signal(number)
                _, errors = lab.communicate(timeout=LIMIT_S)
                self.assertEqual(lab.returncode, 128 + number, errors)
                self.assertIn(f"lab: {number.name}: ending ranks 0, 1\n", errors)
                self.assertGreaterEqual(len(processes), 3)
                self.assertEqual([p for p in processes if is_alive(p)], [])

    def test_reader_of_the_output_goes_away(self):
        lab = self.start(code="print('ready', flush=True)\nwhile True:\n    print('x' * 1000)",
                         worker_count=1)
        watched = [os.pidfd_open(pid) for pid in descendants(lab.pid)]
        lab.stdout.close()
        self.assertEqual(lab.wait(timeout=LIMIT_S), 128 + signal.SIGPIPE)
        self.assertEqual(not_ended(watched), 0)

    def test_kill_of_the_lab_ends_all_processes(self):
        lab = self.start(code=self.family)
        processes = descendants(lab.pid)
        self.assertGreaterEqual(len(processes), 1 + 2 * self.family_size)
        watched = [os.pidfd_open(pid) for pid in processes]
        lab.kill()
        lab.wait(timeout=LIMIT_S)
        self.assertEqual(not_ended(watched), 0)


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


class OnLoopback(Outcomes, LabTest):
    """Without the right to make namespaces, as for a user who is not root."""

    mode = "loopback"
    preexec = staticmethod(without_sys_admin) if os.geteuid() == 0 else None
    family, family_size = BLOCK, 1

    def test_it_says_so_and_limits_and_counts_nothing(self):
        done = self.lab("--workers", 2, "--rate", "1gbit")
        self.assertEqual(done.stderr.splitlines()[0],
                         "lab: no network namespaces here (unshare: Operation not permitted): "
                         "all workers on loopback, rate NOT limited")
        result = self.result()
        self.assertEqual((result["mode"], result["rate"]), ("loopback", "unlimited"))
        for worker in result["workers"]:
            self.assertEqual(worker["address"], "127.0.0.1")
            self.assertIsNone(worker["bytes_sent"])

    def test_workers_reach_each_other(self):
        self.assertIn("[0] got 5000000 from 127.0.0.1\n", self.lab(code=SEND_5_MB).stdout)

    def test_namespaces_can_be_required(self):
        done = self.lab("--require-namespaces", code="print('ran')", status=3)
        self.assertNotIn("ran", done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


@needs_namespaces
class WithoutTools(LabTest):
    def path_with(self, *tools):
        folder = self.folder / "bin"
        folder.mkdir(exist_ok=True)
        for name, content in tools:
            (folder / name).write_text(content, encoding="utf-8")
            (folder / name).chmod(0o755)
        self.env = {"PATH": str(folder)}

    def falls_back(self, why):
        done = self.lab("--workers", 2, code=SEND_5_MB)
        self.assertIn(f"lab: no network namespaces here ({why}): all workers on loopback",
                      done.stderr)
        self.assertIn("[0] got 5000000 from 127.0.0.1\n", done.stdout)
        self.lab("--require-namespaces", status=3)

    def test_no_ip_and_no_tc(self):
        self.path_with()
        self.falls_back("no ip in PATH")
        self.path_with(("ip", "#!/bin/sh\nexit 0\n"))
        self.falls_back("no tc in PATH")

    def test_a_kernel_that_refuses(self):
        self.path_with(("ip", "#!/bin/sh\necho Unknown device type. >&2\nexit 2\n"),
                       ("tc", "#!/bin/sh\nexit 0\n"))
        self.falls_back("ip: Unknown device type.")


@needs_namespaces
class InNamespaces(Outcomes, LabTest):
    mode = "namespaces"
    # A child in a session of its own, whose parent ends: what is hardest to find again.
    family = ("import os, signal, sys\n"
              "if os.fork() == 0:\n    os.setsid()\n    signal.pause()\n"
              "print('ready', flush=True)\nsignal.pause()\n")
    family_size = 2

    def test_environment(self):
        self.lab("--workers", 3, "--rate", "unlimited", arguments=[self.folder],
                 code="import json, os, sys\n"
                      "with open(sys.argv[1] + '/' + os.environ['RANK'], 'w') as file:\n"
                      "    json.dump(dict(os.environ), file)")
        found = [json.loads((self.folder / str(r)).read_text(encoding="utf-8")) for r in range(3)]
        for rank, env in enumerate(found):
            expected = {"RANK": str(rank), "WORLD_SIZE": "3", "LOCAL_RANK": "0",
                        "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "10.77.0.1", "SLUICE_LAB": "1",
                        "MASTER_PORT": found[0]["MASTER_PORT"], "SLUICE_LAB_INTERFACE": "lab0",
                        "GLOO_SOCKET_IFNAME": "lab0", "NCCL_SOCKET_IFNAME": "lab0",
                        "NCCL_HOSTID": f"lab{rank}", "PATH": os.environ["PATH"]}
            self.assertEqual(expected, {key: env.get(key) for key in expected})
        self.assertIn(int(found[0]["MASTER_PORT"]), range(1024, 65536))

    def test_counters_count_what_was_sent(self):
        for rate in ("200mbit", "1gbit", "unlimited"):
            with self.subTest(rate):
                done = self.lab("--workers", 2, "--rate", rate, "--timeout", 40, code=SEND_5_MB)
                self.assertIn("[0] got 5000000 from 10.77.0.2\n", done.stdout)
                receiver, sender = self.result()["workers"]
                self.assertEqual(self.result()["rate"], rate)
                own = int(re.search(r"\[1\] counter (\d+)", done.stdout)[1])
                for bytes_sent in (sender["bytes_sent"], receiver["bytes_received"], own):
                    self.assertGreaterEqual(bytes_sent, 5_000_000)
                    self.assertLess(bytes_sent, 5_600_000)
                self.assertLess(receiver["bytes_sent"], 1_000_000)
                if rate == "unlimited":
                    self.assertIsNone(sender["wire_bytes_sent"])
                    continue
                # Every packet of at most 1448 bytes of payload has 66 bytes of headers.
                self.assertGreaterEqual(sender["wire_bytes_sent"], 5_000_000 * 1514 // 1448)
                self.assertLess(sender["wire_bytes_sent"], 5_600_000)

    def test_idle_links_carry_nothing(self):
        self.lab("--workers", 4)
        for worker in self.result()["workers"]:
            self.assertEqual((worker["bytes_sent"], worker["bytes_received"]), (0, 0))

    def tbf_rates(self, lab, worker_count):
        """tc's own words about the link of each worker: the worker's side, the bridge's side."""
        first = children(lab.pid)[0]
        sides = []
        for pid in (*sorted(children(first)), first):
            text = subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "tc", "qdisc", "show"],
                                  capture_output=True, text=True, check=True).stdout
            sides += re.findall(r"qdisc tbf \S+ dev (\S+) root .*rate (\S+)", text)
        self.assertEqual(len(children(first)), worker_count)
        return sides

    @unittest.skipUnless(shutil.which("nsenter"), "needs nsenter")
    def test_both_ends_of_every_link_are_limited(self):
        for rate, shown in (("100mbit", "100Mbit"), ("1gbit", "1Gbit"), ("2.5gbit", "2500Mbit")):
            with self.subTest(rate):
                found = self.tbf_rates(self.start("--rate", rate), 2)
                self.assertEqual(sorted(found), [("lab0", shown), ("lab0", shown),
                                                 ("w0", shown), ("w1", shown)])
        self.assertEqual(self.tbf_rates(self.start("--rate", "unlimited"), 2), [])

    def test_each_worker_has_only_its_own_links_and_its_own_proc(self):
        code = ("import os, socket\n"
                "print(*sorted(name for _, name in socket.if_nameindex()))\n"
                "with socket.create_server(('127.0.0.1', 0)) as s:\n"
                "    socket.create_connection(s.getsockname()).close()\n"
                "print(os.readlink('/proc/self') == str(os.getpid()))\n"
                "print([line.split()[1] for line in open('/proc/net/route')][1:])\n")
        done = self.lab("--workers", 2, code=code)
        expected = ["lab0 lo", "True", "['00004D0A']"]  # 10.77.0.0 and nothing beyond.
        self.assertEqual(sorted(done.stdout.splitlines()),
                         sorted(f"[{rank}] {line}" for rank in (0, 1) for line in expected))

    def test_mtu(self):
        code = ("import fcntl, socket, struct; s = socket.socket()\n"
                "print(struct.unpack('16si', fcntl.ioctl(s, 0x8921, struct.pack('16si',"
                " b'lab0', 0)))[1])")
        self.assertEqual(self.lab("--workers", 1, code=code).stdout, "[0] 1500\n")
        self.assertEqual(self.lab("--workers", 1, "--mtu", 9000, code=code).stdout, "[0] 9000\n")

    def test_the_machine_is_not_touched(self):
        def state():
            mounts = pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8")
            links = subprocess.run(["ip", "-br", "link"], capture_output=True, check=True).stdout
            return mounts, links
        before = state()
        self.start()
        self.assertEqual(state(), before)

    @unittest.skipUnless(shutil.which("nsenter"), "needs nsenter")
    def test_kill_of_the_lab_ends_namespaces_and_links(self):
        lab = self.start(code=self.family)
        first = children(lab.pid)[0]
        inner = {os.readlink(f"/proc/{p}/ns/net") for p in (first, *descendants(first))}
        self.assertEqual(len(inner), 3)
        # The bridge's namespace is kept by this test, so that its links can be seen to go: a veth
        # goes with the namespace of its other end.
        bridge = os.open(f"/proc/{first}/ns/net", os.O_RDONLY)
        kept = os.readlink(f"/proc/self/fd/{bridge}")
        watched = [os.pidfd_open(pid) for pid in descendants(lab.pid)]
        self.assertEqual(self.links(bridge), {"lo", "bridge", "w0", "w1"})
        lab.kill()
        lab.wait(timeout=LIMIT_S)
        self.assertEqual(not_ended(watched), 0)
        deadline = time.monotonic() + LIMIT_S  # The kernel clears namespaces in the background.
        while self.links(bridge) != {"lo", "bridge"} and time.monotonic() < deadline:
            select.select([], [], [], 0.05)
        self.assertEqual(self.links(bridge), {"lo", "bridge"})
        os.close(bridge)
        self.assertEqual((inner | {kept}) & namespaces_in_use(), set())

    @staticmethod
    def links(namespace):
        done = subprocess.run(["nsenter", f"--net=/proc/self/fd/{namespace}", "ip", "-j", "link"],
                              pass_fds=[namespace], capture_output=True, check=True)
        return {link["ifname"] for link in json.loads(done.stdout)}


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


if __name__ == "__main__":
    unittest.main()
