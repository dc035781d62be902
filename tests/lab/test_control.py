"""tools/lab: requests to change the rate and their answers, at both ends of the pipes."""

import contextlib
import fcntl
import os
import pathlib
import random
import select
import subprocess
import sys
import threading
import unittest
from unittest import mock

from support import LAB, LIMIT_S

sys.dont_write_bytecode = True
sys.path.insert(0, str(LAB.parent))
from lab_parts import answering, control  # noqa: E402
from lab_parts.lab_options import Rate  # noqa: E402
from lab_parts.system import Unavailable  # noqa: E402

CLIENT = pathlib.Path(control.__file__)


def lines_of(*pieces):
    """All that comes out, with what is too long as None."""
    lines, found = answering.Lines(), []
    for piece in pieces:
        lines.add(piece)
        while lines:
            line = lines.next()
            found += [] if line is None else [None if line is answering.TOO_LONG else line]
    return found


class Lines(unittest.TestCase):
    most = control.REQUEST_BYTES_MAX

    def test_any_cut_gives_the_same_lines(self):
        text = b"rate 1gbit\n\nrate 2gbit\n" + b"x" * (self.most + 1) + b"\nrate 3gbit\nrest"
        expected = [b"rate 1gbit", b"", b"rate 2gbit", None, b"rate 3gbit"]
        self.assertEqual(lines_of(text), expected)
        for size in (1, 2, 3, 7, 100, self.most, self.most + 1):
            pieces = [text[at:at + size] for at in range(0, len(text), size)]
            self.assertEqual(lines_of(*pieces), expected)

    def test_longest_line(self):
        self.assertEqual(lines_of(b"x" * self.most, b"\n"), [b"x" * self.most])
        self.assertEqual(lines_of(b"x" * self.most, b"x\n"), [None])

    def test_what_has_no_end_is_told_of_once_and_not_kept(self):
        lines = answering.Lines()
        told = 0
        for _ in range(1000):
            lines.add(b"x" * 100)
            while lines:
                told += lines.next() is answering.TOO_LONG
            self.assertLessEqual(len(lines._rest), self.most + 100)
        self.assertEqual(told, 1)
        lines.add(b"\nrate 1gbit\n")
        self.assertIsNone(lines.next())
        self.assertEqual(lines.next(), b"rate 1gbit")


def apply(text):
    if text == "3gbit":
        raise Unavailable("'3gbit': not here")
    return Rate(text).text


class WithControl(unittest.TestCase):
    """The lab's end of the pipes in this process, with as much of a run as it needs."""

    def setUp(self):
        self.control = answering.Control(apply)
        self.requests, self.answers = self.control.paths.split(":")
        held = [self.control.requests, self.control._answers,
                *(int(path.rpartition("/")[2]) for path in (self.requests, self.answers))]
        for descriptor in held:
            self.addCleanup(os.close, descriptor)
        patch = mock.patch.dict(os.environ, {control.VARIABLE: self.control.paths})
        patch.start()
        self.addCleanup(patch.stop)

    def serve(self):
        """As a run does while there is something to do."""
        while self.control.pending or select.select([self.control.requests], [], [], 0)[0]:
            self.control.read()
            self.control.answer_one()

    def request(self, *requests):
        with open(self.requests, "wb", buffering=0) as file:
            for request in requests:
                file.write(request)
                self.serve()

    def in_time(self, target, *arguments):
        thread = threading.Thread(daemon=True, target=target, args=arguments)
        thread.start()
        thread.join(LIMIT_S)
        self.assertFalse(thread.is_alive())

    def unread(self):
        descriptor = os.open(self.answers, os.O_RDONLY | os.O_NONBLOCK)
        data = b""
        with contextlib.suppress(BlockingIOError):
            while True:
                data += os.read(descriptor, 1 << 16)
        os.close(descriptor)
        self.assertTrue(data.isascii())
        return data.decode("ascii").splitlines()


class Answers(WithControl):
    def test_ok(self):
        self.request(b"rate 83.2mbit\n", b"rate UNLIMITED\n", b"  rate   1gbit \n", b"\n\n\n")
        self.assertEqual(self.unread(), ["ok 83.2mbit", "ok unlimited", "ok 1gbit"])

    def test_a_tag_comes_back(self):
        self.request(b"rate 1gbit #17\n", b"rate 1gb #x y #z\n", b"rate 1gb #a\n", b"#b\n")
        ok, many, bad, alone = self.unread()
        self.assertEqual(ok, "ok 1gbit #17")
        self.assertEqual(many, f"error 'rate 1gb #x y': {answering.ACCEPTED} #z")
        self.assertRegex(bad, "^error '1gb': .* #a$")
        self.assertEqual(alone, f"error '': {answering.ACCEPTED} #b")

    def test_errors_have_the_value_and_what_is_accepted(self):
        for request, value, accepted in (
                (b"rate 1gb\n", "'1gb'", "1kbit to 1000gbit"), (b"rate 0bit\n", "'0bit'", "1kbit"),
                (b"rate\n", "'rate'", "rate RATE"), (b" \n", "''", "rate RATE"),
                (b"rate 1gbit 2gbit\n", "'rate 1gbit 2gbit'", "rate RATE"),
                (b"RATE 1gbit\n", "'RATE 1gbit'", "rate RATE"),
                (b"speed 1gbit\n", "'speed 1gbit'", "rate RATE"),
                (b"rate 3gbit\n", "'3gbit'", "not here"),
                (b"rate 1gbit\r\n", "'1gbit\\r'", "1kbit"),
                (b"rate \xd9\xa1gbit\n", "'\\xd9\\xa1gbit'", "1kbit"),
                (b"x" * 300 + b"\n", "more than 256 bytes", "rate RATE")):
            with self.subTest(request):
                self.request(request)
                answer, = self.unread()
                self.assertTrue(answer.startswith("error "), answer)
                self.assertIn(value, answer)
                self.assertIn(accepted, answer)

    def test_junk_is_answered_in_lines_and_ends_nothing(self):
        draw = random.Random(1)
        for _ in range(300):
            junk = draw.randbytes(draw.randrange(1, 2000))
            self.request(junk, b"\n")
            for answer in self.unread():
                self.assertTrue(answer.startswith("error "), answer)
                self.assertTrue(answer.isprintable(), answer)
                self.assertLess(len(answer), 4096)  # PIPE_BUF: a write is whole or nothing.
        self.request(b"rate 1gbit\n")
        self.assertEqual(self.unread(), ["ok 1gbit"])

    def test_a_request_without_end_waits_for_it(self):
        self.request(b"rate 1g")
        self.assertEqual(self.unread(), [])
        self.request(b"bit\n")
        self.assertEqual(self.unread(), ["ok 1gbit"])

    def test_who_does_not_read_does_not_block(self):
        self.in_time(self.request, *[b"rate 1gbit\n" * 300] * 100)
        answers = self.unread()
        self.assertEqual(set(answers), {"ok 1gbit"})  # None is cut, and the last are lost.
        self.assertLess(len(answers), 30000)
        self.request(b"rate 2gbit\n")
        self.assertEqual(self.unread(), ["ok 2gbit"])

    def test_no_more_is_taken_than_can_be_answered(self):
        with open(self.requests, "wb", buffering=0) as file:
            file.write(b"rate 1gbit\n" * 1000)
        for _ in range(100):
            self.control.read()
        self.assertLessEqual(len(self.control._lines._rest), control.REQUEST_BYTES_MAX)
        self.serve()
        self.assertEqual(self.unread(), ["ok 1gbit"] * 1000)

    def test_a_request_that_someone_else_has_read(self):
        self.in_time(self.control.read)
        self.assertFalse(self.control.pending)


class Client(WithControl):
    """lab_parts/control.py against the lab's end, served by a thread where it is to answer."""

    def serve_until_end(self):
        """Until the context ends; selects, so it costs nothing while nothing is asked."""
        def run():
            while not ended.is_set():
                self.serve()
                select.select([self.control.requests], [], [], LIMIT_S)

        @contextlib.contextmanager
        def context():
            thread = threading.Thread(target=run)
            thread.start()
            try:
                yield
            finally:
                ended.set()
                with open(self.requests, "wb") as file:
                    file.write(b"end\n")
                thread.join()
        ended = threading.Event()
        return context()

    def refused(self, *said, rate="1gbit", timeout_s=LIMIT_S):
        with self.assertRaises(RuntimeError) as caught:
            control.set_rate(rate, timeout_s)
        for text in said:
            self.assertIn(text, str(caught.exception))

    def test_ok_and_errors(self):
        with self.serve_until_end():
            for rate in ("83.2mbit", "unlimited", "1GBIT"):
                self.assertIsNone(control.set_rate(rate))
            self.refused("'1gb'", "1kbit to 1000gbit", rate="1gb")
            self.refused("'3gbit': not here", rate="3gbit")
            self.refused("'rate 1gbit 2gbit'", rate="1gbit 2gbit")
            for rate in ("1gbit\nrate 2gbit", "x" * 300, "\u0661gbit", "\0"):
                self.refused("one line of ASCII, at most 200", rate=rate)
        self.assertEqual([a for a in self.unread() if not a.startswith("error 'end'")], [])

    def test_old_answers_are_not_taken_for_its_own(self):
        self.request(b"rate 5gbit\n", b"nonsense\n")
        with self.serve_until_end():
            control.set_rate("1gbit")
        with open(f"{self.requests}", "wb", buffering=0) as file:  # Of those who gave up waiting.
            file.write(b"rate 1gbit\nrate 1gb\nand something without an end")
        with self.serve_until_end():
            self.refused("'1.5gb'", rate="1.5gb")
            control.set_rate("1gbit")

    def test_many_at_once_get_their_own_answers(self):
        failed = []

        def ask(name):
            for number in range(5):
                try:
                    control.set_rate(f"{name}.{number}gb")
                except RuntimeError as error:
                    failed.append(f"'{name}.{number}gb':" in str(error))
                if not all(failed):
                    return
                control.set_rate(f"{name}.{number}gbit")
        with self.serve_until_end():
            threads = [threading.Thread(target=ask, args=[name]) for name in range(1, 9)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [True] * 40)

    def test_no_answer(self):
        self.refused("'rate 1gbit' was not answered by the lab after 0.1 s", timeout_s=0.1)

    def test_one_who_fails_does_not_keep_others_out(self):
        with self.assertRaises(RuntimeError) as caught:
            control.set_rate("1gbit", 0.05)
        self.assertIsNotNone(caught.exception)  # Which is kept, and with it its frames.
        with self.serve_until_end():
            control.set_rate("2gbit")

    def test_others_keep_asking(self):
        with open(self.requests, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.refused("after 0.05 s: others are asking", timeout_s=0.05)

    def test_requests_that_nobody_takes(self):
        descriptor = os.open(self.requests, os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(descriptor, bytes(1 << 12))
        os.close(descriptor)
        self.refused("not answered by the lab after 0.05 s", timeout_s=0.05)

    def test_without_a_lab(self):
        for value, said in ((None, "is ''"), ("", "is ''"), ("x", "is 'x'"), ("a:b:c", "'a:b:c'"),
                            ("/nothing/here:/nothing/here", "cannot open /nothing/here: No such"),
                            (f"{os.devnull}:{os.devnull}", f"{os.devnull} is no pipe")):
            with self.subTest(value):
                environment = {} if value is None else {control.VARIABLE: value}
                with mock.patch.dict(os.environ, environment):
                    if value is None:
                        del os.environ[control.VARIABLE]
                    self.refused(control.VARIABLE, said)

    def test_lab_that_ends(self):
        read, write = os.pipe()
        os.close(write)
        with mock.patch.dict(os.environ, {control.VARIABLE: f"{self.requests}:/proc/self/fd/"
                                                            f"{read}"}):
            # Whoever opens it for reading finds nobody who could write.
            self.refused("the lab has ended")
        os.close(read)

    def command(self, *arguments):
        return subprocess.run([sys.executable, str(CLIENT), *arguments], capture_output=True,
                              text=True, check=False, timeout=LIMIT_S)

    def test_from_the_shell(self):
        self.control = None
        for arguments in ((), ("rate",), ("speed", "1gbit"), ("rate", "1gbit", "2gbit")):
            done = self.command(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"'{' '.join(arguments)}': accepted is control.py rate RATE", done.stderr)


if __name__ == "__main__":
    unittest.main()
