"""What sluiced accepts as flags, variables and files, and what it says to the rest."""

import os
import subprocess
import unittest

from sluiced_kit import LIMIT_SECONDS, SLUICED, Daemon, SluicedTest


class Options(SluicedTest):
    def start(self, *arguments, env=None):
        return subprocess.run([SLUICED, *arguments], capture_output=True, text=True, check=False,
                              timeout=LIMIT_SECONDS, env={**os.environ, **(env or {})})

    def daemon_refuses(self, *arguments, says, env=None, status=2):
        done = self.start(*arguments, env=env)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("sluiced: "), lines[0])
        for word in says:
            self.assertIn(word, lines[0])

    def test_bad_values_are_named_with_what_is_accepted(self):
        for flag, value, accepted in (
            ("--jobs-max", "0", "1 to 65536"), ("--jobs-max", "-1", "1 to 65536"),
            ("--slots-max", "many", "1 to 16777216"), ("--memory-max", "1k", "1048576 to "),
            ("--frame-size", "100", "1104 to 65507"), ("--lease", "0", "1 to 86400"),
            ("--drain", "1.5", "0 to 86400"), ("--wait-log", "0", "1 to 86400"),
            ("--listen", "127.0.0.1:70000", "host:port"), ("--listen", "[::1", "[IPv6]:port"),
        ):
            self.daemon_refuses(flag, value, says=[value, f"accepted: {accepted}"
                                                   if flag != "--listen" else accepted])
        self.daemon_refuses("--listen", "127.0.0.1:0", "--http", "127.0.0.1:x",
                            says=["'127.0.0.1:x'", "accepted: "])
        self.daemon_refuses("--nope", says=["'--nope'", "accepted"])

    def test_bad_values_of_variables_and_files(self):
        self.daemon_refuses(env={"SLUICED_JOBS_MAX": "none"}, says=["--jobs-max", "'none'"])
        for content, says in ((b"nope = 3\n", "nope"), (b"[x]\njobs-max = 3\n", "x"),
                              (b"jobs-max = 0\n", "'0'"), (b"config = other\n", "config")):
            path = self.write("bad.conf", content)
            self.daemon_refuses("--config", path, says=[says])
        self.daemon_refuses("--config", self.path("missing.conf"), says=["missing.conf"])

    def test_flags_before_variables_before_the_file(self):
        path = self.write("good.conf", b"# mine\njobs-max = 3\nslots-max = 30\nframe-size=2000\n")
        daemon = Daemon(self, "--jobs-max", "5", "--config", path,
                        env={"SLUICED_JOBS_MAX": "4", "SLUICED_SLOTS_MAX": "40"})
        self.assertEqual(daemon.metric("jobs_max"), 5)
        self.assertEqual(daemon.metric("slots_max"), 40)
        daemon = Daemon(self, env={"SLUICED_CONFIG": path})
        self.assertEqual(daemon.metric("slots_max"), 30)

    def test_a_place_that_is_taken(self):
        daemon = Daemon(self)
        self.daemon_refuses("--listen", daemon.udp, says=[daemon.udp, "in use"], status=1)
        self.daemon_refuses("--listen", "127.0.0.1:0", "--http", daemon.http,
                            says=[daemon.http, "in use"], status=1)

    def test_version_and_help(self):
        self.assertRegex(self.start("--version").stdout, r"^sluiced [0-9]+\.[0-9]+\.[0-9]+\n$")
        text = self.start("--help").stdout
        for flag in ("--listen", "--http", "--jobs-max", "--slots-max", "--memory-max",
                     "--frame-size", "--lease", "--drain", "--wait-log", "--config"):
            self.assertIn(flag, text)


if __name__ == "__main__":
    unittest.main()
