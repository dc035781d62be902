"""tools/clang_tidy: what it checks, what it remembers, and for whom."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from tree_kit import TreeTest, header  # noqa: E402


class ClangTidy(TreeTest):
    tool = "clang_tidy"
    fake = """#!/bin/sh
[ "$1" = --version ] && echo 14 && exit 0
for last; do :; done
echo "$last" >> ran
if grep -q BAD "$last"; then echo "$last: bad"; exit 1; fi
"""

    def setUp(self):
        super().setUp()
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        patch = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=cache.name)
        patch.start()
        self.addCleanup(patch.stop)
        paths = ("src/base/a.cc", "apps/sluice/main.cc", "src/base/a_test.cc", "bench/b.cc",
                 "tests/c.cc", "src/base/a_bench.cc", "src/base/a_fuzz.cc", "build/generated.cc")
        self.write({p: "int x;\n" for p in paths} | {"fake": self.fake, ".clang-tidy": "",
                                                     "src/base/a.h": header()})
        os.chmod(self.root / "fake", 0o755)
        entries = [{"directory": str(self.root / "build"), "file": f"../{p}", "command": "c++"}
                   for p in paths]
        entries.append({"directory": "/", "file": "/elsewhere/x.cc", "command": "c++"})
        self.write({"build/compile_commands.json": json.dumps(entries)})

    def check(self, *more):
        code, output = self.run_tool(self.root / "build", "--root", self.root, "--clang-tidy",
                                     self.root / "fake", *more)
        ran = self.root / "ran"
        lines = sorted(ran.read_text().split()) if ran.exists() else []
        ran.unlink(missing_ok=True)
        return code, output, lines

    def test_runs_over_library_and_apps_once(self):
        code, output, ran = self.check()
        self.assertEqual(code, 0, output)
        self.assertEqual(ran, ["apps/sluice/main.cc", "src/base/a.cc"])
        code, output, ran = self.check()
        self.assertEqual((code, ran), (0, []))
        self.assertIn("0 failed of 2 files, 2 remembered", output)

    def test_what_changes_is_run_again(self):
        self.check()
        self.write({"src/base/a.cc": "int y;\n"})
        self.assertEqual(self.check()[2], ["src/base/a.cc"])
        self.write({".clang-tidy": "# other\n"})
        self.assertEqual(len(self.check()[2]), 2)

    def test_a_header_is_of_those_that_reach_it(self):
        self.write({"src/base/a.cc": '#include "base/b.h"\n', "src/base/b.h": '#include "a.h"\n'})
        self.check()
        self.write({"src/base/a.h": header("int z;")})
        self.assertEqual(self.check()[2], ["src/base/a.cc"])

    def test_another_clone_knows_what_passed_and_all_means_all(self):
        self.check()
        shutil.rmtree(self.root / "build" / "clang_tidy_batches")
        self.assertEqual(self.check()[2], [])
        self.assertEqual(len(self.check("--all")[2]), 2)

    def test_failure_is_shown_and_not_remembered(self):
        self.write({"src/base/a.cc": "BAD\n"})
        for _ in range(2):
            code, output, ran = self.check()
            self.assertEqual(code, 1)
            self.assertIn("--- src/base/a.cc\nsrc/base/a.cc: bad\n", output)
            self.assertIn("1 failed of 2 files", output)
            self.assertIn("src/base/a.cc", ran)

    def test_no_compile_commands(self):
        (self.root / "build/compile_commands.json").unlink()
        code, output, _ = self.check()
        self.assertEqual(code, 1)
        self.assertIn("compile_commands.json", output)

    def commit(self):
        """Its id."""
        git = ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
            subprocess.run([*git, *words], check=True)
        return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True,
                              text=True).stdout.strip()

    def forget(self):
        """As another user on another machine, whose clone has only what was committed."""
        shutil.rmtree(os.environ["XDG_CACHE_HOME"])
        for folder in ("clang_tidy_batches", "clang_tidy_alone"):
            shutil.rmtree(self.root / "build" / folder)

    def recorded(self):
        self.write({".gitignore": "/build\n/ran\n/tools\n",
                    "src/base/a.cc": '#include "a.h"\nint x;\n'})
        commit = self.commit()
        (self.root / "tools").mkdir()
        code, output, _ = self.check("--record")
        self.assertEqual(code, 0, output)
        self.assertEqual((self.root / "tools/clang_tidy.green").read_text(), f"{commit}\n14\n")
        self.forget()

    def test_a_machine_that_has_seen_nothing_checks_what_changed_since_the_record(self):
        self.recorded()
        self.assertEqual(self.check()[1:], ("clang_tidy: 0 failed of 2 files, 2 remembered\n", []))
        self.write({"src/base/a.h": header("int z;")})
        self.assertEqual(self.check()[2], ["src/base/a.cc"])
        self.forget()
        self.commit()
        self.assertEqual(self.check()[2], ["src/base/a.cc"])

    def test_a_record_tells_nothing_of_other_checks_flags_tools_or_histories(self):
        for path in (".clang-tidy", "CMakeLists.txt", "cmake/flags.cmake", "CMakePresets.json"):
            with self.subTest(path):
                self.recorded()
                self.write({path: "# other\n"})
                self.assertEqual(len(self.check()[2]), 2)
                (self.root / path).unlink()
                shutil.rmtree(self.root / "tools")
                shutil.rmtree(self.root / ".git")
        self.write({".clang-tidy": ""})
        self.recorded()
        self.write({"fake": self.fake.replace("echo 14", "echo 15")})
        self.assertEqual(len(self.check()[2]), 2)
        self.write({"fake": self.fake, "tools/clang_tidy.green": "0" * 40 + "\n14\n"})
        self.forget()
        self.assertEqual(len(self.check()[2]), 2)

    def test_only_a_commit_can_be_recorded(self):
        self.recorded()
        self.write({"src/base/a.cc": "int y;\n"})
        code, output, _ = self.check("--record")
        self.assertEqual(code, 1)
        self.assertIn("the tree has changes; accepted: a commit", output)


if __name__ == "__main__":
    unittest.main()
