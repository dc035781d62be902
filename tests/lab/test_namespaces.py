"""tools/lab: what a worker finds in its namespace, what is counted and limited, what is left."""

import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time
import unittest
import unittest.mock

from support import (BLOCK, FAMILY, LAB, LIMIT_S, SEND_5_MB, LabTest, children, descendants,
                     namespaces_in_use, needs_namespaces, needs_own_proc, not_ended)

sys.dont_write_bytecode = True
sys.path.insert(0, str(LAB.parent))
from lab_parts import system  # noqa: E402
from lab_parts.system import call  # noqa: E402

MS_BIND, MS_SHARED = 1 << 12, 1 << 20


def root_is_a_mount():
    """Python says so of every "/", that of a chroot too."""
    with open("/proc/self/mountinfo", encoding="utf-8") as lines:
        return any(line.split()[4] == "/" for line in lines)


@needs_namespaces
class InNamespaces(LabTest):
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
                most = 1.12 * int(re.search(r"\[1\] tcp sent (\d+)", done.stdout)[1])
                for bytes_sent in (sender["bytes_sent"], receiver["bytes_received"], own):
                    self.assertGreaterEqual(bytes_sent, 5_000_000)
                    self.assertLess(bytes_sent, most)
                self.assertLess(receiver["bytes_sent"], 1_000_000)
                if rate == "unlimited":
                    self.assertIsNone(sender["wire_bytes_sent"])
                    continue
                # Every packet of at most 1448 bytes of payload has 66 bytes of headers.
                self.assertGreaterEqual(sender["wire_bytes_sent"], 5_000_000 * 1514 // 1448)
                self.assertLess(sender["wire_bytes_sent"], most)

    def test_packets_fit_the_burst(self):
        for rate, burst in (("10mbit", 1 << 14), ("400mbit", 50_000), ("10gbit", 1 << 18)):
            with self.subTest(rate):
                done = self.lab("--workers", 1, "--rate", rate, code="import os\n"
                                "os.system('ip -d -j link show lab0')")
                [link] = json.loads(done.stdout.removeprefix("[0] "))
                # Of a frame of 1514 bytes 1440 are a packet's; the kernel's own limit is 64 KiB.
                self.assertEqual(link["gso_max_size"], min(65536, burst * 1440 // 1514))

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

    @needs_own_proc
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
        lab = self.start(code=FAMILY)
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

    @needs_own_proc
    @unittest.skipUnless(root_is_a_mount(), "is in a chroot, as all cases then are")
    def test_in_a_chroot_too_each_worker_has_its_own_proc(self):
        root = self.folder / "root"
        root.mkdir()
        self.preexec = lambda: enter_chroot(root)
        lab = self.start(code="import os; print(os.readlink('/proc/self') == str(os.getpid()))\n"
                              + BLOCK, lines=("True", "ready"))
        # What is mounted for the workers stays with them, though the chroot's mounts are shared.
        mounts = pathlib.Path(f"/proc/{lab.pid}/mountinfo").read_text(encoding="utf-8")
        self.assertEqual(mounts.count(" /proc "), 1, mounts)


def enter_chroot(root):
    """In a mount namespace of its own: a chroot that shows the machine, its "/" no mount point."""
    call("unshare", system.CLONE_NEWNS)
    call("mount", b"none", b"/", None, system.MS_REC | system.MS_PRIVATE, None)
    for entry in os.scandir("/"):
        if entry.is_symlink():
            os.symlink(os.readlink(entry), root / entry.name)
        elif entry.is_dir():
            (root / entry.name).mkdir()
            call("mount", os.fsencode(entry.path), os.fsencode(root / entry.name), None,
                 MS_BIND | system.MS_REC, None)
    call("mount", b"none", b"/", None, system.MS_REC | MS_SHARED, None)
    folder = os.getcwd()
    os.chroot(root)
    os.chdir(folder)


class OwnProc(unittest.TestCase):
    def test_where_it_cannot_be_the_reason_is_told(self):
        with unittest.mock.patch.object(system, "call", side_effect=[None, OSError(22, "mount: a"),
                                                                     OSError(1, "mount: b")]):
            with self.assertRaisesRegex(OSError, "mount: b"):
                system.own_proc()


if __name__ == "__main__":
    unittest.main()
