"""What sluiced does about its surroundings: a log that nobody reads, a file that changes."""

import fcntl
import os
import signal
import subprocess
import unittest

from sluiced_kit import LIMIT_SECONDS, READY, SLUICED, Daemon, Lines, SluicedTest


class UnreadDaemon(Daemon):
    """Its standard error is a full pipe of which nobody reads until read() is called."""

    def __init__(self, test, *arguments):  # pylint: disable=super-init-not-called
        reader, writer = os.pipe()
        self.job = subprocess.Popen(
            [SLUICED, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments],
            stdout=subprocess.PIPE, stderr=writer, text=True)
        self.out = Lines(self.job.stdout)
        self.job.stderr = os.fdopen(reader)
        ready = READY.search(self.job.stderr.readline())
        self.udp, self.http = ready[1], ready[2]
        # Whoever shares the pipe shares whether writing waits: as it was, once the pipe is full.
        flags = fcntl.fcntl(writer, fcntl.F_GETFL)
        fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        try:
            while True:
                os.write(writer, b"." * 4095 + b"\n")
        except BlockingIOError:
            pass
        fcntl.fcntl(writer, fcntl.F_SETFL, flags)
        os.close(writer)
        test.addCleanup(self.end)

    def read(self):
        self.err = Lines(self.job.stderr)

    def end(self):
        if self.job.poll() is None:
            self.job.kill()
        self.job.wait(LIMIT_SECONDS)
        self.job.stdout.close()
        if hasattr(self, "err"):
            self.err.thread.join(LIMIT_SECONDS)
        self.job.stderr.close()


class Log(SluicedTest):
    def test_a_log_that_nobody_reads_holds_nothing_up(self):
        daemon = UnreadDaemon(self)
        self.assertEqual(daemon.metric("log_lost_total"), 0)

        def loses():
            daemon.job.send_signal(signal.SIGHUP)  # a line each, unless two become one
            return daemon.metric("log_lost_total") >= 10

        daemon.wait_until(loses)
        self.assertEqual(daemon.get("/healthz"), (200, "ok\n"))
        self.check_pair([daemon], "--codec", "tide")
        lost = int(daemon.metric("log_lost_total"))
        daemon.read()
        self.assertGreaterEqual(
            int(daemon.err.wait_for(r"([0-9]+) lines of this log were lost")[1]), lost)
        daemon.job.send_signal(signal.SIGTERM)
        daemon.err.wait_for("ends, 0 jobs left")
        self.assertEqual(daemon.job.wait(LIMIT_SECONDS), 0)

    def test_it_ends_though_nobody_reads(self):
        daemon = UnreadDaemon(self)
        daemon.job.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.job.wait(LIMIT_SECONDS), 0)

    def test_without_standard_error_it_serves(self):
        # Else its first socket would be number 2, and the log go to workers.
        job = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" 0<&- 2>&-', SLUICED, "--listen",
                                "127.0.0.1:0"], stdout=subprocess.DEVNULL)
        self.addCleanup(job.kill)
        names = ["0", "2"]

        def opened():
            try:
                return [os.readlink(f"/proc/{job.pid}/fd/{name}") for name in names]
            except FileNotFoundError:
                return None

        Daemon(self).wait_until(lambda: opened() is not None)
        self.assertEqual(opened(), ["/dev/null"] * 2)
        job.terminate()
        job.wait(LIMIT_SECONDS)


class Reload(SluicedTest):
    def hang_up(self, daemon, says):
        daemon.job.send_signal(signal.SIGHUP)
        return daemon.err.wait_for(says)

    def test_limits_change_and_those_of_flags_and_variables_do_not(self):
        path = self.write("x.conf", b"jobs-max = 3\nlease = 50\nslots-max = 99\n")
        daemon = Daemon(self, "--config", path, "--slots-max", "7777")
        self.assertEqual((daemon.metric("jobs_max"), daemon.metric("slots_max")), (3, 7777))
        self.write("x.conf", b"jobs-max = 1\nlease = 50\nslots-max = 88\nwait-log=1\n")
        self.hang_up(daemon, r"x\.conf again: jobs-max 3 -> 1, wait-log 5 -> 1$")
        self.assertEqual((daemon.metric("jobs_max"), daemon.metric("slots_max")), (1, 7777))
        # A command has two jobs.
        for late in self.pair([daemon], "--codec", "f32", job="late"):
            self.assertNotEqual(late.wait(), 0)
            self.assertIn("this aggregator is full: 1 of 1 jobs", late.err.text())
        self.write("x.conf", b"")
        self.hang_up(daemon, r"jobs-max 1 -> 64, lease 50 -> 60, wait-log 1 -> 5$")
        self.check_pair([daemon], "--codec", "f32", job="other")

    def test_what_needs_a_restart_is_named(self):
        path = self.write("x.conf", b"")
        daemon = Daemon(self, "--config", path)
        self.write("x.conf", b"frame-size = 2000\nlisten = 127.0.0.1:1\n")
        self.hang_up(daemon, "frame-size stays 9000: 2000 needs a restart")
        self.assertIn("again: nothing changes", daemon.err.text())
        self.assertNotIn("listen stays", daemon.err.text(), "the flag goes before")
        self.check_pair([daemon], "--codec", "f32")

    def test_a_bad_file_changes_nothing(self):
        path = self.write("x.conf", b"jobs-max = 3\n")
        daemon = Daemon(self, "--config", path)
        for content, says in ((b"lease = 1\njobs-max = 0\n", "nothing changes: .*'0'.*1 to 65536"),
                              (b"nope = 1\n", "nothing changes: .*'nope'.*accepted"),
                              (b"#" * 70000, "nothing changes: .*larger.*accepted: .*65536 bytes")):
            self.write("x.conf", content)
            self.hang_up(daemon, says)
        os.remove(path)
        self.hang_up(daemon, "nothing changes: .*No such file")
        self.assertEqual(daemon.metric("jobs_max"), 3)

    def test_without_a_file_nothing_happens(self):
        daemon = Daemon(self)
        self.hang_up(daemon, "SIGHUP: no --config file was given")
        self.check_pair([daemon], "--codec", "f32")

    def test_while_it_drains(self):
        path = self.write("x.conf", b"jobs-max = 3\n")
        daemon = Daemon(self, "--config", path, "--drain", "3600")
        self.worker(0, [daemon], "--codec", "f32")
        self.wait_until_here(daemon, [0])
        daemon.job.send_signal(signal.SIGTERM)
        daemon.err.wait_for("draining: no new jobs")
        self.write("x.conf", b"lease = 1\n")
        self.hang_up(daemon, "jobs-max 3 -> 64, lease 60 -> 1$")
        self.assertEqual(daemon.get("/healthz"), (503, "draining\n"))
        daemon.job.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0)
        self.assertIn("stops at once", daemon.err.text())

    def test_before_it_listens(self):
        # Blocked until the daemon says what it means: the earliest moment there is.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
        self.addCleanup(signal.pthread_sigmask, signal.SIG_UNBLOCK, [signal.SIGHUP])
        job = subprocess.Popen([SLUICED, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.kill)
        job.send_signal(signal.SIGHUP)
        lines = Lines(job.stderr)
        lines.wait_for("SIGHUP: no --config file was given")
        lines.wait_for("listening on")
        job.terminate()
        self.assertEqual(job.wait(LIMIT_SECONDS), 0)
        lines.thread.join(LIMIT_SECONDS)


class ConfigFile(SluicedTest):
    def refuses(self, path, why):
        done = subprocess.run([SLUICED, "--config", path], capture_output=True, text=True,
                              check=False, timeout=LIMIT_SECONDS)
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"sluiced: --config '{path}': {why}; accepted: a readable regular "
                             "file of at most 65536 bytes\n"))

    def test_what_is_no_small_file_is_refused_at_once(self):
        self.refuses("/dev/zero", "is no regular file")
        self.refuses(self.path(""), "is a directory")
        self.refuses(self.write("large", b"#" * 65537), "is larger")
        self.refuses(self.path("missing"), "No such file or directory")
        os.mkfifo(self.path("pipe"))
        self.refuses(self.path("pipe"), "is no regular file")
        self.refuses("/proc/self/mem", "Input/output error")


if __name__ == "__main__":
    unittest.main()
