"""tools/lab: aggregators beside the workers: what they find, when they start, how they end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from support import (BLOCK, ECHO, LAB, LIMIT_S, OPEN, LabTest, children, descendants, is_alive,
                     namespaces_in_use, needs_namespaces, not_ended, python, without_sys_admin)

EXCHANGE = OPEN + """
for index, address in enumerate(aggregators):
    s.sendto(f"{rank} to {index}".encode(), address)
    data, source = s.recvfrom(100)
    assert (data.decode(), source) == (f"{rank} to {index}", address)
print("exchanged", len(aggregators))
"""

NOTE_ENVIRONMENT = """
import json
with open(f"{sys.argv[1]}/%s", "w") as file:
    json.dump({"args": sys.argv[2:], **os.environ}, file)
"""


class Aggregators:
    """The same in namespaces and on loopback."""

    def environments(self, *options, count):
        with_note = (ECHO.replace('print("listening"', NOTE_ENVIRONMENT
                                  % "a{os.environ['SLUICE_LAB_AGGREGATOR']}"
                                  + 'print("listening"', 1))
        done = self.lab(
            "--workers", 2, *options, "--aggregator-command",
            python(with_note, self.folder, "{address}:{port}", "{index} of {workers}"),
            code="import os, sys" + NOTE_ENVIRONMENT % "w{os.environ['RANK']}",
            arguments=[self.folder])
        self.assertIn("[a0] listening\n", done.stdout)

        def read(name):
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        return [read(f"w{rank}") for rank in (0, 1)], [read(f"a{i}") for i in range(count)]

    def check_environments(self, workers, aggregators):
        listed = ",".join(f"{env['SLUICE_LAB_ADDRESS']}:{env['SLUICE_LAB_PORT']}"
                          for env in aggregators)
        for env in workers:
            self.assertEqual(env["SLUICE_AGGREGATORS"], listed)
        for index, env in enumerate(aggregators):
            where = f"{env['SLUICE_LAB_ADDRESS']}:{env['SLUICE_LAB_PORT']}"
            self.assertEqual(env["args"], [where, f"{index} of 2"])
            expected = {"SLUICE_LAB_AGGREGATOR": str(index), "SLUICE_LAB_WORKERS": "2",
                        "SLUICE_LAB": "1", "SLUICE_LAB_INTERFACE": self.interface}
            self.assertEqual(expected, {key: env.get(key) for key in expected})
            self.assertNotIn("RANK", env)

    def test_environment(self):
        workers, aggregators = self.environments("--aggregators", 3, count=3)
        self.check_environments(workers, aggregators)
        self.check_places(aggregators, ["10.77.0.101", "10.77.0.102", "10.77.0.103"])

    def test_environment_beside_workers(self):
        workers, aggregators = self.environments("--aggregators-on-workers", count=2)
        self.check_environments(workers, aggregators)
        self.check_places(aggregators, ["10.77.0.1", "10.77.0.2"])

    def test_every_worker_reaches_every_aggregator(self):
        for options, count in ((("--aggregators", 2), 2), (("--aggregators-on-workers",), 3)):
            with self.subTest(options[0]):
                done = self.lab("--workers", 3, *options, "--aggregator-command", python(ECHO),
                                code=EXCHANGE)
                for rank in range(3):
                    self.assertIn(f"[{rank}] exchanged {count}\n", done.stdout)
                for index in range(count):
                    self.assertIn(f"[a{index}] terminated after 1 1 1\n", done.stdout)
                    self.assertRegex(done.stderr, rf"lab: aggregator {index}, .*exit 0\n")
                self.assertEqual([(a["aggregator"], a["exit"])
                                  for a in self.result()["aggregators"]],
                                 [(index, 0) for index in range(count)])

    def test_workers_start_when_the_last_aggregator_is_ready(self):
        # Each says so only when the test has written into its pipe.
        pipes = [self.folder / str(index) for index in range(2)]
        for pipe in pipes:
            os.mkfifo(pipe)
        slow = ("import os, signal, sys\nprint('warming up', flush=True)\n"
                "open(f\"{sys.argv[1]}/{os.environ['SLUICE_LAB_AGGREGATOR']}\").read()\n"
                "print('now open at last', file=sys.stderr)\nsignal.pause()\n")
        lab = self.popen("--workers", 2, "--aggregators", 2, "--aggregator-ready", "open at",
                         "--aggregator-command", python(slow, self.folder), code=BLOCK)
        lines = sorted(lab.stdout.readline() for _ in range(2))
        self.assertEqual(lines, ["[a0] warming up\n", "[a1] warming up\n"])
        first = children(lab.pid)[0]
        for pipe in pipes:
            self.assertEqual(len(children(first)), 2)
            with open(pipe, "w", encoding="ascii"):
                pass
        lines = sorted(lab.stdout.readline() for _ in range(2))
        self.assertEqual(lines, ["[0] ready\n", "[1] ready\n"])
        self.assertEqual(len(children(first)), 4)

    def test_sigterm_comes_after_all_workers_have_ended(self):
        last = ("import os, signal, sys\n"
                "def end(*_):\n"
                "    sys.exit(0 if sorted(os.listdir(sys.argv[1])) == ['0', '1', '2'] else 9)\n"
                "signal.signal(signal.SIGTERM, end)\nprint('listening', flush=True)\n"
                "while True:\n    signal.pause()\n")
        ended = self.folder / "ended"
        ended.mkdir()
        self.lab("--workers", 3, "--aggregators", 1, "--aggregator-command", python(last, ended),
                 code="import os, sys\nopen(f\"{sys.argv[1]}/{os.environ['RANK']}\", 'w').close()",
                 arguments=[ended])
        self.assertEqual(self.result()["aggregators"][0]["exit"], 0)

    def test_one_that_ignores_sigterm_is_killed_and_one_that_does_not_answer_it_is_fine(self):
        mixed = ("import os, signal\nif os.environ['SLUICE_LAB_AGGREGATOR'] == '1':\n"
                 "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                 "print('listening', flush=True)\nwhile True:\n    signal.pause()\n")
        done = self.lab("--aggregators", 2, "--aggregator-command", python(mixed), status=137)
        self.assertIn("lab: aggregator 1 was ended by SIGKILL at the end\n", done.stderr)
        self.assertNotIn("aggregator 0 was", done.stderr)
        self.assertEqual([a["exit"] for a in self.result()["aggregators"]], [143, 137])

    def test_processor_time_is_told_of_each(self):
        # Children that were waited for count: `time` in a shell says the same.
        burn = ("import os, time\n"
                "def burn(seconds):\n"
                "    while time.process_time() < seconds:\n        pass\n"
                "if os.fork() == 0:\n    burn(0.2)\n    os._exit(0)\n"
                "os.wait()\n")
        done = self.lab("--workers", 2, "--aggregators", 2, "--aggregator-command",
                        python(burn + "if os.environ['SLUICE_LAB_AGGREGATOR'] == '1':\n"
                                      "    burn(0.6)\n" + ECHO),
                        code=burn + "if os.environ['RANK'] == '1':\n    burn(0.6)\n")
        rows = self.result()["workers"], self.result()["aggregators"]
        for kind, found in zip(("rank", "aggregator"), rows):
            for index, least in enumerate((0.2, 0.8)):
                used = found[index]["cpu_seconds"]
                self.assertGreaterEqual(used, least)
                self.assertIn(f"cpu {used:.3f} s, exit 0\n",
                              re.search(rf"lab: {kind} {index}, .*\n", done.stderr)[0])

    def test_death_before_it_is_ready(self):
        for code, status in ((5, 5), (0, 1)):
            broken = f"import sys; print('because', file=sys.stderr); sys.exit({code})"
            for options in ((), ("--aggregators-may-fail",)):
                done = self.lab("--aggregators", 1, "--quiet", *options, "--aggregator-command",
                                python(broken), code="print('ran')", status=status)
                self.assertIn(f"lab: aggregator 0 exited with {code} before the workers started\n",
                              done.stderr)
                self.assertIn("lab: [a0] because\n", done.stderr)
                self.assertNotIn("ran", done.stdout)
                result = self.result()
                self.assertEqual((result["workers"], result["aggregators"][0]["exit"]), ([], code))

    def test_death_while_workers_run(self):
        code = OPEN + "import signal\ns.sendto(b'exit 6', aggregators[1])\nsignal.pause()"
        done = self.lab("--workers", 1, "--aggregators", 2, "--grace", 0, "--aggregator-command",
                        python(ECHO), code=code, status=6)
        self.assertIn("lab: aggregator 1 exited with 6 while workers ran\n", done.stderr)
        self.assertIn("ending rank 0\n", done.stderr)
        self.assertEqual([a["exit"] for a in self.result()["aggregators"]], [0, 6])

    def test_death_that_is_allowed(self):
        # The pipe ends when the kernel closes it, so when nothing changes the exit status any more.
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        # It is opened before it can end: afterwards nobody writes, and opening would wait for ever.
        code = OPEN + ("pipe = open(sys.argv[1])\n"
                       "s.sendto(b'exit 6', aggregators[0])\n"
                       "print('gone' + pipe.read())\n")
        done = self.lab("--workers", 1, "--aggregators", 1, "--aggregators-may-fail", "--grace", 0,
                        "--aggregator-command",
                        python("import os, sys\nos.open(sys.argv[1], os.O_RDWR)\n" + ECHO, pipe),
                        code=code, arguments=[pipe])
        self.assertIn("[0] gone\n", done.stdout)
        self.assertIn("lab: aggregator 0 exited with 6 ", done.stderr)
        self.assertEqual(self.result()["aggregators"][0]["exit"], 6)

    def test_one_that_is_never_ready(self):
        done = self.lab("--aggregators", 1, "--timeout", 1, "--aggregator-command", python(BLOCK),
                        code="print('ran')", status=124)
        self.assertIn("lab: time-out after 1 s; not ready: aggregator 0\n", done.stderr)
        self.assertNotIn("ran", done.stdout)
        self.assertEqual(self.result()["aggregators"][0]["exit"], 143)

    def test_command_that_cannot_be_run(self):
        done = self.lab("--aggregators", 2, "--aggregator-command", "/nothing/here {port}",
                        status=127, code="print('ran')")
        self.assertIn("lab: cannot run '/nothing/here': ", done.stderr)
        self.assertNotIn("ran", done.stdout)

    def everything(self):
        """A lab with two workers, and two aggregators with relays, that has come up."""
        lab = self.popen("--workers", 2, "--aggregators", 2, "--duplicate", 1,
                         "--aggregator-command", python(ECHO), code=BLOCK)
        lines = sorted(lab.stdout.readline() for _ in range(4))
        self.assertEqual(lines, ["[0] ready\n", "[1] ready\n", "[a0] listening\n",
                                 "[a1] listening\n"])
        self.assertEqual(len(children(children(lab.pid)[0])), 6)
        return lab

    def test_signal_ends_all(self):
        lab = self.everything()
        processes = descendants(lab.pid)
        lab.send_signal(signal.SIGTERM)
        output, errors = lab.communicate(timeout=LIMIT_S)
        self.assertEqual(lab.returncode, 128 + signal.SIGTERM, errors)
        self.assertIn("lab: SIGTERM: ending ranks 0, 1\n", errors)
        self.assertIn("[a1] terminated", output)
        self.assertIn("lab: relay 1, ", errors)
        self.assertEqual([p for p in processes if is_alive(p)], [])

    def test_kill_of_the_lab_ends_all(self):
        lab = self.everything()
        processes = descendants(lab.pid)
        inner = {os.readlink(f"/proc/{pid}/ns/net") for pid in processes}
        self.assertEqual(len(inner), self.namespace_count)
        watched = [os.pidfd_open(pid) for pid in processes]
        lab.kill()
        lab.wait(timeout=LIMIT_S)
        self.assertEqual(not_ended(watched), 0)
        self.assertEqual((inner - {os.readlink("/proc/self/ns/net")}) & namespaces_in_use(), set())


@needs_namespaces
class InNamespaces(Aggregators, LabTest):
    interface, namespace_count = "lab0", 5  # One is the bridge's.

    def check_places(self, aggregators, addresses):
        self.assertEqual([(env["SLUICE_LAB_ADDRESS"], env["SLUICE_LAB_PORT"])
                          for env in aggregators], [(a, "48864") for a in addresses])

    def test_port_can_be_chosen(self):
        _, aggregators = self.environments("--aggregators", 2, "--aggregator-port", 777, count=2)
        self.assertEqual([env["SLUICE_LAB_PORT"] for env in aggregators], ["777", "777"])

    def test_their_links_are_counted_where_they_are_their_own(self):
        code = OPEN + ("for _ in range(10):\n"
                       "    s.sendto(bytes(1000), aggregators[-1])\n    s.recv(2000)")
        self.lab("--workers", 1, "--aggregators", 2, "--aggregator-command", python(ECHO),
                 code=code)
        idle, busy = self.result()["aggregators"]
        self.assertEqual((idle["address"], idle["bytes_received"] < 1000), ("10.77.0.101", True))
        for key in ("bytes_sent", "bytes_received", "wire_bytes_sent", "wire_bytes_received"):
            self.assertGreaterEqual(busy[key], 10 * (1000 + 42))
        self.lab("--workers", 2, "--aggregators-on-workers", "--aggregator-command", python(ECHO))
        beside = self.result()["aggregators"]
        self.assertTrue(all(a.pop("cpu_seconds") > 0 for a in beside))
        self.assertEqual(beside, [{"aggregator": 0, "address": "10.77.0.1", "exit": 0},
                                  {"aggregator": 1, "address": "10.77.0.2", "exit": 0}])

    def rates(self, *options):
        show = "import subprocess\nsubprocess.run(['tc', 'qdisc', 'show', 'dev', 'lab0'])\n"
        done = self.lab("--workers", 1, "--aggregators", 1, *options, "--aggregator-command",
                        python(show + ECHO), code=show)
        return {found[1]: found[2] for found in
                re.finditer(r"\[(\w+)\] qdisc tbf .* rate (\S+) ", done.stdout)}

    def test_rate(self):
        self.assertEqual(self.rates(), {"0": "1Gbit", "a0": "1Gbit"})
        self.assertEqual(self.rates("--rate", "100mbit", "--aggregator-rate", "10gbit"),
                         {"0": "100Mbit", "a0": "10Gbit"})
        self.assertEqual(self.rates("--aggregator-rate", "unlimited"), {"0": "1Gbit"})
        self.assertIsNone(self.result()["aggregators"][0]["wire_bytes_sent"])
        self.assertEqual(self.rates("--rate", "unlimited", "--aggregator-rate", "1mbit"),
                         {"a0": "1Mbit"})


class OnLoopback(Aggregators, LabTest):
    preexec = staticmethod(without_sys_admin) if os.geteuid() == 0 else None
    interface, namespace_count = "lo", 1

    def check_places(self, aggregators, addresses):
        self.assertEqual({env["SLUICE_LAB_ADDRESS"] for env in aggregators}, {"127.0.0.1"})
        self.assertEqual(len({env["SLUICE_LAB_PORT"] for env in aggregators}), len(addresses))

    def test_can_be_asked_for(self):
        self.preexec = None
        done = self.lab("--no-namespaces", "--aggregators", 1, "--aggregator-command",
                        python(ECHO), code=EXCHANGE)
        self.assertIn("lab: no network namespaces here (--no-namespaces): all workers on loopback",
                      done.stderr)
        self.assertEqual(self.result()["mode"], "loopback")


@unittest.skipUnless(shutil.which("sh"), "needs sh")
class FromTheShell(unittest.TestCase):
    def test_command_is_split_as_a_shell_would(self):
        done = subprocess.run(
            [sys.executable, str(LAB), "--no-namespaces", "--workers", "1", "--aggregators", "1",
             "--aggregator-command", "sh -c 'echo \"$0 listening\"; read x' \"at {port}\"",
             "--aggregators-may-fail", "--", "true"],
            capture_output=True, text=True, check=False, timeout=LIMIT_S)
        self.assertRegex(done.stdout, r"\[a0\] at \d+ listening\n")


if __name__ == "__main__":
    unittest.main()
