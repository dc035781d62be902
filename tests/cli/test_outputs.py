"""What cannot be written is never lost: every output of every command, wherever it goes."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import unittest

from every_command import ARGUMENTS, FILES, FOLDERS, every_command
from sluice_cli import SLUICE, CliTest, read_npy
from sluiced_kit import SLUICED

BROKEN_PIPE = 128 + signal.SIGPIPE
FULL = "No space left on device"
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python")


def small_files():
    """In the child: no file may grow beyond a few bytes, as on a disk that is full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))


def as_nobody():
    """In the child: a user whom modes of files bind, which they do not bind root."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


class OutputTest(CliTest):
    def setUp(self):
        super().setUp()
        self.files = self.workers([1.0] * 50, [2.0] * 50)

    def arguments(self, words, without=()):
        """Of a command's small work, less an option that the test gives itself."""
        result = list(words)
        given = iter(ARGUMENTS[words])
        for word in given:
            if word in without:
                next(given)
            elif word == "{files}":
                result += self.files
            else:
                result.append(word.format(folder=self.path("folder")))
        return result

    def run_with(self, arguments, text=True, **options):
        options.setdefault("stdout", subprocess.DEVNULL)
        return subprocess.run([SLUICE, *arguments], stderr=subprocess.PIPE, text=text, check=False,
                              **options)

    def check_refused(self, done, *says):
        """Exit status 2 and one line with these words."""
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in says:
            self.assertIn(word, done.stderr)

    def left_over(self):
        """Files that only the middle of a write should see."""
        return [name for _, _, names in os.walk(self.folder.name) for name in names
                if name.endswith(".tmp")]


class EveryOutput(OutputTest):
    def test_every_output_of_every_command_has_a_case(self):
        commands = every_command()
        self.assertEqual({c.words for c in commands if not c.commands}, set(ARGUMENTS))
        for kind, cases in (("FILE", FILES), ("FOLDER", FOLDERS)):
            found = {(c.name, option) for c in commands for option, k in c.options.items()
                     if k == kind}
            self.assertEqual(found, set(cases))

    def for_each_file(self, check):
        """Calls check(words, option, arguments) for every file that a command writes."""
        for name, option in FILES:
            words = tuple(name.split())
            with self.subTest(command=name, option=option):
                check(words, option, self.arguments(words, without=[option]))

    def test_a_full_device(self):
        def check(_, option, arguments):
            done = self.run_with([*arguments, option, "/dev/full"])
            self.check_refused(done, "/dev/full: cannot be written", FULL)

        self.for_each_file(check)

    def test_a_full_disk_leaves_what_was_there(self):
        def check(words, option, arguments):
            if words == ("generate",):
                return  # its folder is full first: below
            path = self.write("old", b"as it was")
            done = self.run_with([*arguments, option, path], preexec_fn=small_files)
            self.check_refused(done, f"{path}: cannot be written: File too large")
            with open(path, "rb") as file:
                self.assertEqual(file.read(), b"as it was")
            self.assertEqual(self.left_over(), [])

        self.for_each_file(check)

    def test_a_full_disk_under_a_folder(self):
        for name, option in FOLDERS:
            with self.subTest(command=name, option=option):
                words = tuple(name.split())
                folder = self.path(f"{words[0]}-out")
                done = self.run_with([*self.arguments(words, without=[option]), option, folder],
                                     preexec_fn=small_files)
                self.check_refused(done, f"{folder}/", "cannot be written: File too large")
                self.assertEqual(self.left_over(), [])
                self.assertNotIn("manifest.json", os.listdir(folder))

    def test_a_place_that_does_not_exist(self):
        def check(_, option, arguments):
            path = self.path("missing/x")
            self.check_refused(self.run_with([*arguments, option, path]),
                               f"{path}: cannot be written: No such file or directory")
            self.check_refused(self.run_with([*arguments, option, self.folder.name]),
                               f"{self.folder.name}: cannot be written: Is a directory")
            self.check_refused(self.run_with([*arguments, option, ""]), f"{option} ''")

        self.for_each_file(check)
        for name, option in FOLDERS:
            words = tuple(name.split())
            self.check_refused(
                self.run_with([*self.arguments(words, without=[option]), option, "/proc/x/y"]),
                "/proc/x/y")

    def test_one_that_cannot_be_written_costs_no_other(self):
        for name in {name for name, _ in FILES}:
            words = tuple(name.split())
            options = [option for n, option in FILES if n == name]
            for bad in options:
                arguments = self.arguments(words, without=options)
                for option in options:
                    path = "/dev/full" if option == bad else self.path(option)
                    arguments += [option, path]
                with self.subTest(command=name, option=bad):
                    done = self.run_with(arguments, stdout=subprocess.PIPE)
                    self.check_refused(done, "/dev/full: cannot be written", FULL)
                    self.assertTrue(done.stdout, "the table")
                    for option in options:
                        if option != bad:
                            self.assertGreater(os.path.getsize(self.path(option)), 100)
                            os.remove(self.path(option))

    def test_names_that_are_not_utf8(self):
        folder = os.fsencode(self.path("")) + b"\xff\xfe"
        arguments = self.arguments(("generate",), without=["--out"])
        for more in ([], ["--json", self.path("list.json")], ["--json", "-"]):
            done = self.run_with([*arguments, "--out", folder, *more], text=False,
                                 stdout=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        listed = json.loads(done.stdout)
        with open(self.path("list.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), listed)
        self.assertEqual(listed["files"][1], self.path("\ufffd\ufffd/w1.npy"))
        self.assertEqual(sorted(os.listdir(folder)), [b"w0.npy", b"w1.npy"])

    def test_devices_and_descriptors_are_written_to(self):
        def check(_, option, arguments):
            for device in ("/dev/null", "/dev/stderr"):
                done = self.run_with([*arguments, option, device], text=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(device == "/dev/stderr", bool(done.stderr))

        self.for_each_file(check)
        self.assertEqual(os.stat("/dev/null").st_rdev, os.makedev(1, 3))

    def test_a_link_stays_and_its_target_is_replaced(self):
        os.symlink("target.json", self.path("link.json"))
        for _ in range(2):  # the target does not exist, and does
            self.call("codecs", "--json", self.path("link.json"))
            self.assertTrue(os.path.islink(self.path("link.json")))
            self.assertGreater(os.path.getsize(self.path("target.json")), 1000)


class AFileThatIsThere(OutputTest):
    """What is kept of it, and what is done where it cannot be replaced."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("sub"))
        self.old = self.write("sub/old.json", b"as it was")
        os.chmod(self.folder.name, 0o755)
        self.addCleanup(os.chmod, self.path("sub"), 0o755)

    def content(self):
        with open(self.old, "rb") as file:
            return file.read()

    def write_as_nobody(self):
        try:
            return self.run_with(["codecs", "--json", self.old], preexec_fn=as_nobody)
        except PermissionError:
            return self.skipTest("only root may run this build")

    def test_its_mode_is_kept(self):
        for mode in (0o600, 0o640, 0o666):
            os.chmod(self.old, mode)
            self.call("codecs", "--json", self.old)
            self.assertEqual(os.stat(self.old).st_mode & 0o7777, mode)

    def test_one_that_may_not_be_written_is_not_replaced(self):
        os.chmod(self.path("sub"), 0o777)
        os.chmod(self.old, 0o444)
        self.check_refused(self.write_as_nobody(),
                           f"{self.old}: cannot be written: Permission denied")
        self.assertEqual((self.content(), os.listdir(self.path("sub"))),
                         (b"as it was", ["old.json"]))

    def test_in_a_folder_that_takes_no_other(self):
        os.chmod(self.path("sub"), 0o555)
        os.chmod(self.old, 0o666)
        number = os.stat(self.old).st_ino
        done = self.write_as_nobody()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        json.loads(self.content())
        self.assertEqual(os.stat(self.old).st_ino, number)

    def test_of_another_user_in_a_folder_like_tmp(self):
        if os.getuid() != 0:
            self.skipTest("needs two users")
        os.chmod(self.path("sub"), 0o1777)
        os.chmod(self.old, 0o666)
        done = self.write_as_nobody()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        json.loads(self.content())
        self.assertEqual(os.listdir(self.path("sub")), ["old.json"])

    def test_with_a_mount_on_it(self):
        if shutil.which("unshare") is None:
            self.skipTest("there is no unshare")
        mounted = self.write("mounted", b"x" * 100000)
        script = 'mount --bind "$1" "$2" || exit 77; shift 2; exec "$@"'
        words = ["unshare", "-m", *([] if os.getuid() == 0 else ["-r"]), "sh", "-c", script, "sh",
                 mounted, self.old, SLUICE, "codecs", "--json", self.old]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("this machine lets us mount nothing")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(mounted, encoding="utf-8") as file:
            json.load(file)
        self.assertEqual((self.content(), self.left_over()), (b"as it was", []))

    def test_a_loop_of_links(self):
        os.symlink("loop", self.path("loop"))
        self.check_refused(self.run_with(["codecs", "--json", self.path("loop")]),
                           "loop: cannot be written: Too many levels of symbolic links")
        self.assertTrue(os.path.islink(self.path("loop")))


class StandardOutput(OutputTest):
    def all_arguments(self):
        for words in ARGUMENTS:
            yield self.arguments(words)
        for command in every_command():
            yield [*command.words, "--help"]
        yield ["--version"]
        yield ["codecs", "--json", "-"]
        yield ["codecs", "--json", "/dev/stdout"]

    def test_full(self):
        for arguments in self.all_arguments():
            with self.subTest(arguments=arguments):
                with open("/dev/full", "w", encoding="utf-8") as full:
                    self.check_refused(self.run_with(arguments, stdout=full), FULL)

    def test_closed(self):
        for arguments in self.all_arguments():
            with self.subTest(arguments=arguments):
                done = self.run_with(arguments, stdout=None, preexec_fn=lambda: os.close(1))
                self.check_refused(done, "cannot be written: Bad file descriptor")

    def test_closed_gives_its_number_to_no_file(self):
        out = self.path("mean.npy")
        self.run_with(["reduce", "--codec", "f32", "--out", out, *self.files], stdout=None,
                      preexec_fn=lambda: os.close(1))
        self.assertEqual(read_npy(out)[1], (1.5,) * 50)

    def test_a_reader_that_went_away(self):
        for arguments in self.all_arguments():
            for restore in (True, False):  # SIGPIPE as in a shell, and ignored
                with self.subTest(arguments=arguments, restore=restore):
                    reader, writer = os.pipe()
                    os.close(reader)
                    done = self.run_with(arguments, stdout=writer, restore_signals=restore)
                    os.close(writer)
                    if "/dev/stdout" in arguments:
                        self.check_refused(done, "/dev/stdout: cannot be written: Broken pipe")
                    else:
                        self.assertEqual((done.returncode, done.stderr), (BROKEN_PIPE, ""))

    def test_files_are_written_though_nobody_reads(self):
        reader, writer = os.pipe()
        os.close(reader)
        path = self.path("codecs.json")
        self.run_with(["codecs", "--json", path], stdout=writer)
        os.close(writer)
        self.assertGreater(os.path.getsize(path), 1000)

    def test_a_file_that_is_standard_output(self):
        path = self.path("both")
        with open(path, "w", encoding="utf-8") as file:
            self.check_refused(self.run_with(["codecs", "--json", path], stdout=file),
                               f"--json {path}", "standard output")
        with open(path, "w", encoding="utf-8") as file:
            done = self.run_with(["codecs", "--json", "/dev/stdout"], stdout=file)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("name ") and text.endswith("}\n"), "the table, then JSON")

    def test_the_daemon_s(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for flag in ("--help", "--version"):
                done = subprocess.run([SLUICED, flag], stdout=full, stderr=subprocess.PIPE,
                                      text=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(done.stderr,
                                 f"sluiced: standard output: cannot be written: {FULL}\n")
                reader, writer = os.pipe()
                os.close(reader)
                done = subprocess.run([SLUICED, flag], stdout=writer, stderr=subprocess.PIPE,
                                      text=True, check=False)
                os.close(writer)
                self.assertEqual((done.returncode, done.stderr), (BROKEN_PIPE, ""))

    def test_the_package_s(self):
        command = [sys.executable, "-m", "sluice.info"]
        env = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"}
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False, env=env)
        self.check_refused(done, "standard output: cannot be written", FULL)
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=env,
                              preexec_fn=lambda: os.close(1))
        self.check_refused(done, "standard output: cannot be written", "Bad file descriptor")


class SameFile(OutputTest):
    def pairs(self):
        """Any two files that one command writes."""
        for i, (name, first) in enumerate(FILES):
            for other, second in FILES[i + 1:]:
                if name == other:
                    yield tuple(name.split()), first, second

    def check_pair(self, words, first, second, names):
        arguments = self.arguments(words, without=[first, second])
        done = self.run_with([*arguments, first, names[0], second, names[1]])
        self.check_refused(done, f"{first} {names[0]}", f"{second} {names[1]}", "the same file")

    def test_however_it_is_spelled(self):
        os.mkdir(self.path("sub"))
        os.symlink(self.path("sub"), self.path("way"))
        os.symlink("x", self.path("dangling"))
        old = self.write("old", b"as it was")
        os.symlink("old", self.path("link"))
        os.link(old, self.path("hard"))
        for words, first, second in self.pairs():
            for names in ((self.path("x"), self.path("x")), (self.path("x"), self.path("./x")),
                          (self.path("x"), self.path("sub/../x")), (self.path("sub/x"),
                          self.path("way/x")), (self.path("dangling"), self.path("x")),
                          (self.path("link"), old), (self.path("hard"), old)):
                with self.subTest(words=words, names=names):
                    self.check_pair(words, first, second, names)
        self.assertFalse(os.path.exists(self.path("x")))
        with open(old, "rb") as file:
            self.assertEqual(file.read(), b"as it was")

    def test_relative_to_where_it_runs(self):
        for words, first, second in self.pairs():
            arguments = self.arguments(words, without=[first, second])
            done = self.run_with([*arguments, first, "x", second, self.path("x")],
                                 cwd=self.folder.name)
            self.check_refused(done, f"{first} x", f"{second} {self.path('x')}")

    def test_a_dash_is_a_file_but_for_json(self):
        for words, first, second in self.pairs():
            arguments = self.arguments(words, without=[first, second])
            for dash, file in ((first, second), (second, first)):
                names = {dash: "-", file: "./-"}
                done = self.run_with([*arguments, first, names[first], second, names[second]],
                                     cwd=self.folder.name)
                if dash == "--json":
                    self.assertEqual(done.returncode, 0, done.stderr)
                else:
                    self.check_refused(done, f"{first} {names[first]}",
                                       f"{second} {names[second]}", "the same file")

    def test_a_device_twice_is_fine(self):
        for words, first, second in self.pairs():
            arguments = self.arguments(words, without=[first, second])
            done = self.run_with([*arguments, first, "/dev/null", second, "/dev/null"])
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_files_that_a_folder_gets(self):
        folder = self.path("made")
        self.check_refused(
            self.run_with([*self.arguments(("generate",), without=["--out"]), "--out", folder,
                           "--json", f"{folder}/w1.npy"]), "--json", "w1.npy", f"--out {folder}")
        for name in ("manifest.json", "down.bin", "up-1.bin"):
            for option in ("--out", "--json"):
                done = self.run_with([*self.arguments(("reduce",)), "--dump-wire", folder, option,
                                      f"{folder}/{name}"])
                self.check_refused(done, f"{option} {folder}/{name}", f"--dump-wire {folder}")
        self.assertFalse(os.path.exists(folder))
        self.call(*self.arguments(("generate",), without=["--out"]), "--out", folder, "--json",
                  f"{folder}/list.json")
        self.assertEqual(sorted(os.listdir(folder)), ["list.json", "w0.npy", "w1.npy"])

    def test_an_input_is_read_before_it_is_replaced(self):
        self.call("reduce", "--codec", "f32", "--out", self.files[0], *self.files)
        self.assertEqual(read_npy(self.files[0])[1], (1.5,) * 50)


if __name__ == "__main__":
    unittest.main()
