"""tools/lab: the rate changed from within while workers run: what links and counters then are."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from support import (BLOCK, ECHO, LAB, LIMIT_S, WHY_NO_PROC, LabTest, children, descendants,
                     needs_namespaces, not_ended, python, without_sys_admin)

sys.dont_write_bytecode = True
sys.path.insert(0, str(LAB.parent))
from lab_parts import control  # noqa: E402
from lab_parts.lab_options import Rate  # noqa: E402

CLIENT = pathlib.Path(control.__file__)

# What a worker begins with. links(): tc's words about every tbf, in all namespaces of the lab; the
# machine's own cannot be seen from within. Rank 1 only keeps its link, until rank 0 has ended.
ASK = f"""
import glob, json, os, socket, subprocess, sys, threading
sys.dont_write_bytecode = True
sys.path.append({str(LAB.parent)!r})
from lab_parts.control import set_rate
folder = sys.argv[1]
def links():
    seen = {{os.readlink(path): path for path in glob.glob("/proc/[0-9]*/ns/net")}}
    found = [each for path in seen.values() for each in json.loads(subprocess.check_output(
        ["nsenter", f"--net={{path}}", "tc", "-s", "-j", "qdisc", "show"]))]
    return sorted(((x["dev"], x["options"], x["bytes"], x["backlog"]) for x in found
                   if x["kind"] == "tbf"), key=str)
def show(what=None):
    print(json.dumps(links() if what is None else what))
if os.environ["RANK"] == "1":
    open(folder + "/end").read()
    sys.exit()
"""

# Sends that many bytes over TCP within the lab, from rank 0 to the echo of an aggregator's place.
SINK = """
import os, socket
with socket.create_server((os.environ["SLUICE_LAB_ADDRESS"], 7)) as server:
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        while connection.recv(1 << 16):
            pass
        connection.sendall(b"!")
"""
SEND = """
def send(size):
    to = os.environ["SLUICE_AGGREGATORS"].split(":")[0], 7
    with socket.create_connection(to, timeout=30) as connection:
        connection.sendall(bytes(size))
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"!"
"""


class Everywhere:
    """The same in namespaces and on loopback, apart from the answer to what is right."""

    def test_asked_by_a_child_of_a_child(self):
        # As under torchrun: nothing is inherited but the environment.
        code = (f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', '''if True:\n"
                f"    import subprocess, sys\n"
                f"    for rate in ('20mbit', '1gb'):\n"
                f"        done = subprocess.run(['sh', '-c', '{sys.executable} -B {CLIENT} rate '"
                f" + rate + ' 2>&1; echo status $?'], close_fds=True, start_new_session=True)\n"
                f"'''], close_fds=True)")
        done = self.lab("--workers", 1, code=code)
        ok, status, bad, bad_status = done.stdout.splitlines()
        self.assertEqual((ok, status), (f"[0] {self.right('20mbit')}",
                                        f"[0] status {self.right_status}"))
        self.assertEqual((bad, bad_status), ("[0] control: '1gb': accepted are 1kbit to 1000gbit "
                                             "as a number with one of bit, kbit, mbit, gbit, and "
                                             "'unlimited'", "[0] status 1"))

    @unittest.skipUnless(shutil.which("sh"), "needs sh")
    def test_from_a_shell_without_the_client(self):
        script = ("echo rate 20mbit > ${SLUICE_LAB_CONTROL%:*}; "
                  "read -r answer < ${SLUICE_LAB_CONTROL#*:}; echo \"$answer\"")
        done = self.lab("--workers", 1, code=f"import subprocess; subprocess.run(['sh', '-c', "
                                             f"{script!r}])")
        self.assertEqual(done.stdout, f"[0] {self.right('20mbit', 'error ')}\n")

    def test_bad_requests_neither_end_nor_hold_the_lab(self):
        # A flood that nobody reads the answers of, then a request that is answered.
        code = ASK + ("requests = open(os.environ['SLUICE_LAB_CONTROL'].split(':')[0], 'wb', 0)\n"
                      "for _ in range(20):\n"
                      "    requests.write(os.urandom(60000) + b'\\n' + b'rate 1gb\\n' * 300)\n"
                      "requests.write(b'rate ')\n"
                      "try:\n    set_rate('3gbit')\nexcept RuntimeError as error:\n"
                      "    print(error)\nelse:\n    print('ok 3gbit')\n")
        done = self.lab("--workers", 1, code=code, arguments=[self.folder])
        self.assertEqual(done.stdout, f"[0] {self.right('3gbit', '')}\n")

    def test_kill_of_the_lab_leaves_nothing(self):
        code = ("import os\npaths = os.environ['SLUICE_LAB_CONTROL']\nprint(paths, flush=True)\n"
                "pipes = list(map(open, paths.split(':'), ('wb', 'rb')))\n" + BLOCK)
        lab = self.popen("--workers", 1, code=code)
        paths = lab.stdout.readline().split()[1].split(":")
        first = children(lab.pid)[0]
        self.assertEqual(lab.stdout.readline(), "[0] ready\n")
        pipes = {os.readlink(f"/proc/{first}/fd/{path.rpartition('/')[2]}") for path in paths}
        self.assertEqual([pipe.partition("[")[0] for pipe in pipes], ["pipe:", "pipe:"])
        self.assertEqual(pipes & open_pipes(), pipes)
        watched = [os.pidfd_open(pid) for pid in descendants(lab.pid)]
        lab.kill()
        lab.wait(timeout=LIMIT_S)
        self.assertEqual(not_ended(watched), 0)
        self.assertEqual(pipes & open_pipes(), set())


def open_pipes():
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(path))
    return found


@needs_namespaces
class InNamespaces(Everywhere, LabTest):
    right_status = 0

    @staticmethod
    def right(rate, _prefix=""):
        return f"ok {rate}"

    def shown(self, *options, code, workers=2):
        """What show() printed, of a lab in which rank 1 waits until rank 0 has ended."""
        if WHY_NO_PROC:
            self.skipTest(WHY_NO_PROC)
        os.mkfifo(self.folder / "end")
        end = "\nopen(folder + '/end', 'w').close()\n" if workers == 2 else ""
        try:
            done = self.lab("--workers", workers, "--timeout", 40, *options, code=ASK + code + end,
                            arguments=[self.folder])
        finally:
            (self.folder / "end").unlink()
        return [json.loads(line.removeprefix("[0] ")) for line in done.stdout.splitlines()
                if line.startswith("[0] ")]

    def check_rates(self, links, expected):
        """expected: device -> bits of each tbf, lab0 as often as there are such."""
        self.assertEqual(sorted((device, 8 * options["rate"]) for device, options, *_ in links),
                         sorted(expected))

    @staticmethod
    def both(bits):
        return [("lab0", bits), ("lab0", bits), ("w0", bits), ("w1", bits)]

    def test_all_ends_of_all_links_as_if_started_so(self):
        rates = ("83.2mbit", "100mbit", "1kbit", "1gbit", "2.5gbit", "1000gbit", "64kbit")
        changed = self.shown(code="".join(f"set_rate('{rate}')\nshow()\n" for rate in rates))
        for rate, links in zip(rates, changed):
            with self.subTest(rate):
                started, = self.shown("--rate", rate, code="show()")
                self.assertEqual([link[:2] for link in links], [link[:2] for link in started])
                self.check_rates(links, self.both(Rate(rate).bits))
        self.assertEqual([change["rate"] for change in self.result()["rates"]], ["64kbit"])

    def test_report(self):
        self.shown(code="for rate in ('20mbit', '20mbit', 'unlimited', '1gbit'):\n"
                        "    set_rate(rate)\n"
                        "try:\n    set_rate('1gb')\nexcept RuntimeError:\n    pass")
        result = self.result()
        self.assertEqual((result["rate"], result["aggregator_rate"]), ("1gbit", "1gbit"))
        self.assertEqual([change["rate"] for change in result["rates"]],
                         ["1gbit", "20mbit", "unlimited", "1gbit"])
        seconds = [change["seconds"] for change in result["rates"]]
        self.assertEqual((seconds[0], seconds), (0.0, sorted(seconds)))
        self.assertLess(seconds[-1], result["seconds"])
        for count, said in ((1, "1gbit then 1mbit"), (3, "1gbit then 1mbit then 2mbit then 3mbit"),
                            (4, "1gbit then 3 others then 4mbit")):
            done = self.lab("--workers", 1, arguments=[self.folder], code=ASK +
                            f"for rate in range({count}):\n    set_rate(f'{{rate + 1}}mbit')\n")
            self.assertRegex(done.stderr, rf"lab: workers 1, namespaces, {said}, \S+ s\n")

    def test_unlimited_and_back(self):
        code = ("show()\nset_rate('unlimited')\nshow()\nset_rate('20mbit')\nshow()\n"
                "set_rate('unlimited')\nshow()\nset_rate('30mbit')\nshow()")
        without, still, low, high, again = self.shown("--rate", "unlimited", code=code)
        self.assertEqual((without, still), ([], []))  # What was not asked for is not in the way.
        self.check_rates(low, self.both(20 * 10**6))
        self.check_rates(high, self.both(10**12))
        self.check_rates(again, self.both(30 * 10**6))

    def test_aggregators_follow_unless_they_have_a_rate_of_their_own(self):
        for options, bits, text in (((), 20 * 10**6, "20mbit"),
                                    (("--aggregator-rate", "1gbit"), 10**9, "1gbit"),
                                    (("--aggregator-rate", "unlimited"), None, "unlimited")):
            with self.subTest(options):
                links, = self.shown("--aggregators", 1, "--aggregator-command", python(ECHO),
                                    *options, code="set_rate('20mbit')\nshow()")
                own = [] if bits is None else [("a0", bits), ("lab0", bits)]
                self.check_rates(links, self.both(20 * 10**6) + own)
                result = self.result()
                self.assertEqual((result["rate"], result["aggregator_rate"]), ("20mbit", text))

    def send(self, *options, code):
        """What show() printed, and rank 0's row, of a lab with a sink for TCP."""
        shown = self.shown("--aggregators", 1, "--aggregator-rate", "unlimited",
                           "--aggregator-command", python(SINK), *options, code=SEND + code,
                           workers=1)
        return shown, self.result()["workers"][0]

    @staticmethod
    def on_a_wire(size):
        """At least: every packet of at most 1448 bytes of payload has 66 bytes of headers."""
        return size * 1514 // 1448

    def test_what_was_charged_is_kept_by_every_change(self):
        code = "".join(f"send({size})\nbefore = links()\n"
                       f"set_rate('{rate}')\nshow([before, links()])\n" for size, rate in
                       ((10**6, "200mbit"), (10**6, "50mbit"), (10**5, "2gbit"),
                        (10**6, "unlimited"), (10**6, "20mbit")))
        shown, row = self.send("--rate", "1gbit", code=code)
        total = 0
        for (before, after), size in zip(shown, (10**6, 10**6, 10**5, 10**6, 10**6)):
            total += size
            for old, charged in zip(before, after):  # An acknowledgement may still come.
                self.assertTrue(old[2] <= charged[2] < old[2] + 1000, (old, charged))
            self.assertGreaterEqual(after[0][2], self.on_a_wire(total))
        self.assertTrue(after[0][2] <= row["wire_bytes_sent"] < 2 * total)
        self.assertLessEqual(after[1][2], row["wire_bytes_received"])

    def test_what_passed_before_the_first_limit_is_not_charged(self):
        _, row = self.send("--rate", "unlimited", code="send(3_000_000)\nset_rate('unlimited')")
        self.assertEqual((row["wire_bytes_sent"], row["wire_bytes_received"], row["dropped"]),
                         (None, None, None))
        _, row = self.send("--rate", "unlimited", code="send(3_000_000)\nset_rate('200mbit')\n"
                           "send(500_000)\nset_rate('unlimited')\nsend(500_000)")
        self.assertGreaterEqual(row["bytes_sent"], 4_000_000)
        self.assertGreaterEqual(row["wire_bytes_sent"], self.on_a_wire(1_000_000))
        self.assertLess(row["wire_bytes_sent"], 2_000_000)

    def test_a_queue_of_large_packets_does_not_close_the_link(self):
        # Trains of 60 kB pass 1gbit's burst whole and are larger than that of 10mbit: one that is
        # queued at the change could never leave. Only what leaves is counted.
        code = """
if os.fork() == 0:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_UDP, 103, 1000)
    while True:
        s.sendto(bytes(60000), ("10.77.0.2", 9))
def mine():
    return json.loads(subprocess.check_output(["tc", "-s", "-j", "qdisc", "show", "dev", "lab0"]))
for _ in range(4):
    set_rate("1gbit")
    while mine()[0]["backlog"] < 60000:
        pass
    set_rate("10mbit")
    charged = mine()[0]["bytes"]
    while mine()[0]["bytes"] < charged + 50000:
        pass
show("through")
"""
        self.assertEqual(self.shown("--rate", "1gbit", code=code), ["through"])
        self.assertGreater(self.result()["workers"][0]["dropped"], 0)  # It was as it says.

    def test_tc_that_refuses(self):
        folder = self.folder / "bin"
        folder.mkdir()
        (folder / "tc").write_text(f"#!/bin/sh\nif [ -e {self.folder}/refuse ]; then\n"
                                   f"  echo not today >&2; exit 1\nfi\n"
                                   f"exec {shutil.which('tc')} \"$@\"\n", encoding="utf-8")
        (folder / "tc").chmod(0o755)
        self.env = {"PATH": f"{folder}:{os.environ['PATH']}"}
        code = ("open(folder + '/refuse', 'w').close()\n"
                "try:\n    set_rate('20mbit')\n"
                "except RuntimeError as error:\n    why = str(error)\n"
                "os.unlink(folder + '/refuse')\nshow(why)\nset_rate('30mbit')\nshow()")
        why, links = self.shown(code=code)
        self.assertEqual(why, "'20mbit': tc: not today; some links may have it, and others still "
                              "the rate before")
        self.check_rates(links, self.both(30 * 10**6))
        self.assertEqual([change["rate"] for change in self.result()["rates"]],
                         ["1gbit", "30mbit"])


class OnLoopback(Everywhere, LabTest):
    preexec = staticmethod(without_sys_admin) if os.geteuid() == 0 else None
    right_status = 1

    @staticmethod
    def right(rate, prefix="control: "):
        return f"{prefix}'{rate}': all workers are on loopback: nothing is limited"

    def test_where_it_was_asked_for(self):
        self.preexec = None
        done = self.lab("--workers", 1, "--no-namespaces", arguments=[self.folder],
                        code=ASK + "for rate in ('1gbit', 'unlimited'):\n"
                                   "    try:\n        set_rate(rate)\n"
                                   "    except RuntimeError as error:\n        print(error)\n")
        self.assertEqual(re.findall(r"\[0\] (.*)\n", done.stdout),
                         [self.right(rate, "") for rate in ("1gbit", "unlimited")])
        self.assertEqual(self.result()["rates"], [{"rate": "unlimited", "seconds": 0.0}])


if __name__ == "__main__":
    unittest.main()
