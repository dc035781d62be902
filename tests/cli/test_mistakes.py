"""What goes wrong is one line: mistakes, which it names, and too little memory with status 2."""

import resource
import subprocess
import unittest

from every_command import ARGUMENTS, every_command
from sluice_cli import SLUICE, CliTest
from sluiced_kit import SLUICED


class Mistakes(CliTest):
    def test_a_command_that_does_not_exist_or_is_missing(self):
        for command in every_command():
            if not command.commands:
                continue
            accepted = f"accepted: {', '.join(command.commands)}"
            self.refused(*command.words, says=["missing", accepted])
            for word in ("nope", "nope --json x", "code"):
                self.refused(*command.words, *word.split(), says=[f"'{word.split()[0]}'", accepted])

    def test_an_option_that_does_not_exist(self):
        for command in every_command():
            for option in ("--nope", "-x", "--jsno=3"):
                self.refused(*command.words, option, says=[option.split("=")[0], "accepted: ",
                                                           "--help"])

    def test_an_argument_too_many(self):
        for words in ARGUMENTS:
            if words not in (("reduce",), ("bench", "codec")):
                self.refused(*words, "extra", says=["'extra'", "accepted: "])

    def test_an_option_without_its_value(self):
        for command in every_command():
            for option, kind in command.options.items():
                if kind:
                    self.refused(*command.words, option, says=[option, "no value", kind])

    def test_an_option_given_twice(self):
        for command in every_command():
            for option in ("--json", "--seed"):
                if option in command.options:
                    self.refused(*command.words, option, "17", option, "18",
                                 says=[option, "'17'", "'18'", "once"])

    def test_numbers_that_are_none(self):
        numbers = 0
        for command in every_command():
            for option, kind in command.options.items():
                if kind != "UINT":
                    continue
                numbers += 1
                for value in ("x", "-1", "1.5", "1e3", "18446744073709551616", "0x10", "3 "):
                    self.refused(*command.words, f"{option}={value}",
                                 says=[option, f"'{value}'", "accepted: a whole number, 0 to "])
        self.assertGreater(numbers, 20)

    def test_one_line_whatever_the_value_has_in_it(self):
        for value in ("a\nb", "a\rb\tc", "\033[31mred"):
            self.refused(value, says=["accepted"])
            self.refused("codecs", "--nope" + value, says=["accepted"])
            self.refused("generate", "--out", "x", "--kind", value, says=["accepted"])
        self.refused("x" * 100000, says=["'xxxx", "accepted"])

    def test_what_is_required(self):
        self.refused("generate", says=["--out is missing", "FOLDER"])
        self.refused("reduce", says=["--codec is missing", "accepted"])

    def test_the_daemon_s(self):
        for arguments, says in ((["nope"], ["'nope'", "accepted"]),
                                (["--jobs-max"], ["--jobs-max", "no value", "accepted"]),
                                (["--jobs-max", "x"], ["'x'", "accepted"])):
            done = subprocess.run([SLUICED, *arguments], capture_output=True, text=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
            for word in says:
                self.assertIn(word, done.stderr)


class TooLittleMemory(CliTest):
    LIMIT = 200 << 20

    def limited(self, *arguments, limit=LIMIT):
        return subprocess.run(
            [SLUICE, *arguments], capture_output=True, text=True, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    def setUp(self):
        super().setUp()
        if self.limited("--version").returncode != 0:
            self.skipTest("this build takes more addresses than the test allows it")

    def check_out_of_memory(self, *arguments, says="", limit=LIMIT):
        done = self.limited(*arguments, limit=limit)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "^sluice: out of memory[^\n]*\n$")
        self.assertIn(says, done.stderr)

    def test_every_command_says_so(self):
        self.check_out_of_memory("generate", "--count", str(1 << 32), "--out", self.path("g"),
                                 says="--count 4294967296 wants 17179869184 bytes")
        self.check_out_of_memory("bench", "codec", "--count", str(1 << 28), "--codec", "f32")
        self.check_out_of_memory("bench", "allreduce", "-b", "256M", "--codec", "f32")
        self.check_out_of_memory("bench", "lossless", "--count", str(1 << 26))
        self.call("generate", "--count", str(1 << 20), "--workers", "2", "--out", self.path("g"))
        files = [self.path(f"g/w{i % 2}.npy") for i in range(64)]
        self.check_out_of_memory("reduce", "--codec", "f32", *files)

    def test_threads_too(self):
        self.check_out_of_memory("bench", "codec", "--count", str(1 << 16), "--threads", "256",
                                 "--codec", "f32", says="thread")


class ACarrierThatFails(CliTest):
    def test_is_no_mistake(self):
        files = self.workers([1.0, 2.0], [3.0, 4.0])
        for arguments in (["reduce", "--codec", "f32", *files],
                          ["bench", "allreduce", "--codec", "f32", "-b", "4K", "--workers", "2"]):
            done = subprocess.run(
                [SLUICE, *arguments, "--carrier", "stream"], capture_output=True, text=True,
                check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4)))
            self.assertEqual((done.returncode, done.stderr),
                             (1, "sluice: socket: Too many open files\n"))


if __name__ == "__main__":
    unittest.main()
