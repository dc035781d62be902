"""tools/lab: what the command line refuses, and what it says then."""

import subprocess
import sys
import unittest

from support import LAB, LIMIT_S, LabTest


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

    def test_bad_values_of_aggregators_and_faults(self):
        for option, value, accepted in (
                ("--aggregators", "0", "1 to 64"), ("--aggregators", "65", "1 to 64"),
                ("--aggregator-port", "0", "1 to 65000"),
                ("--aggregator-port", "65001", "1 to 65000"),
                ("--aggregator-rate", "fast", "unlimited"), ("--aggregator-ready", "", "not empty"),
                ("--aggregator-command", "'x", "quotes"), ("--aggregator-command", " ", "command"),
                ("--loss", "101", "0 to 100"), ("--loss", "-1", "0 to 100"),
                ("--loss", "1e-3", "0 to 100"), ("--loss", "nan", "0 to 100"),
                ("--loss", "0.00001", "4 decimals"), ("--loss-protocol", "tcp", "udp, all"),
                ("--duplicate", "100.1", "0 to 100"), ("--reorder", "some", "0 to 100"),
                ("--delay", "1.5", "0 to 10000"), ("--delay", "10001", "0 to 10000"),
                ("--seed", "-1", "0 to 999999999")):
            with self.subTest(f"{option} {value}"):
                self.refused(f"{option}={value}", "--", "true", says=[option, value, accepted])

    def test_options_that_would_do_nothing(self):
        two = ["--aggregators=2", "--aggregator-command=true"]
        for options, named, needed in (
                (["--aggregator-command=true"], "--aggregator-command", "--aggregators"),
                (["--aggregators=2"], "--aggregator-command", "aggregators need one"),
                (["--aggregators-on-workers"], "--aggregator-command", "aggregators need one"),
                (["--aggregator-ready=x"], "--aggregator-ready", "--aggregators"),
                (["--aggregator-port=5"], "--aggregator-port", "--aggregators"),
                (["--aggregators-may-fail"], "--aggregators-may-fail", "--aggregators"),
                (["--duplicate=0"], "--duplicate", "--aggregators"),
                (["--reorder=1"], "--reorder", "--aggregators"),
                (["--delay=1"], "--delay", "--aggregators"),
                (["--loss-protocol=udp"], "--loss-protocol", "--loss"),
                ([*two, "--seed=5"], "--seed", "--duplicate"),
                ([*two, "--seed=5", "--loss=1"], "--seed", "--duplicate"),
                (["--aggregators-on-workers", two[1], "--aggregator-rate=1gbit"],
                 "--aggregator-rate", "--aggregators")):
            with self.subTest(" ".join(options)):
                self.refused(*options, "--", "true", says=[named, needed])

    def test_options_that_contradict(self):
        two = ["--aggregators=2", "--aggregator-command=true"]
        for options, named, other in (
                ([*two, "--aggregators-on-workers"], "--aggregators", "--aggregators-on-workers"),
                (["--no-namespaces", "--require-namespaces"], "--require-namespaces",
                 "--no-namespaces"),
                (["--no-namespaces", "--rate=1gbit"], "--rate", "--no-namespaces"),
                (["--no-namespaces", "--mtu=9000"], "--mtu", "--no-namespaces"),
                ([*two, "--no-namespaces", "--aggregator-rate=1gbit"], "--aggregator-rate",
                 "--no-namespaces"),
                (["--no-namespaces", "--loss=1"], "--loss", "relay"),
                ([*two, "--no-namespaces", "--loss=1", "--loss-protocol=all"], "--loss",
                 "relay")):
            with self.subTest(" ".join(options)):
                self.refused(*options, "--", "true", says=[named, other])

    def test_no_command_and_unknown_option(self):
        self.refused("--workers", "2", says=["COMMAND"])
        self.refused("--workers", "2", "--", says=["COMMAND"])
        self.refused("--wrong", "--", "true", says=["--wrong"])
        self.refused("stray", "--", "true", says=["stray"])

    def test_json_that_cannot_be_written(self):
        self.refused("--json", "/proc/nothing/x", "--", "true", says=["/proc/nothing/x"])

    def test_help(self):
        done = subprocess.run([str(LAB), "--help"], capture_output=True, text=True, check=True)
        for option in ("--workers", "--rate", "--require-namespaces", "--aggregators", "--loss",
                       "COMMAND"):
            self.assertIn(option, done.stdout)


if __name__ == "__main__":
    unittest.main()
