"""tools/lab: how it ends and what it shows, in namespaces and on loopback."""

import contextlib
import os
import signal
import subprocess
import sys
import unittest

from support import (BLOCK, FAMILY, LAB, LIMIT_S, SEND_5_MB, LabTest, children, descendants,
                     is_alive, needs_namespaces, not_ended, without_sys_admin)


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
        code = ("import os, signal, sys\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "open(f\"{sys.argv[1]}/{os.environ['RANK']}\", 'w').close()\n"
                "if os.environ['RANK'] == '1':\n    os._exit(0)\n"
                "while True:\n    signal.pause()")
        for seconds in (1, 4, 16):  # Until all were that far before the time was over.
            folder = self.folder / str(seconds)
            folder.mkdir()
            done = self.lab("--workers", 3, "--timeout", seconds, code=code, arguments=[folder],
                            status=124)
            if len(os.listdir(folder)) == 3:
                break
        self.assertIn(f"time-out after {seconds} s; still running: ranks 0, 2\n", done.stderr)
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


@needs_namespaces
class InNamespaces(Outcomes, LabTest):
    mode, family, family_size = "namespaces", FAMILY, 2


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


if __name__ == "__main__":
    unittest.main()
