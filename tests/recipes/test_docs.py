"""The guides stay true: marked code is that of a file that is run, links lead somewhere, the table
of variables is the options', messages are the source's. Needs neither torch nor the library."""

import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import unittest

from recipes_kit import ROOT, RecipeTest

GUIDES = [ROOT / "docs" / f"{name}.md" for name in
          ("install", "quickstart", "pytorch", "mpi", "environment", "troubleshooting", "c-api")]
# <!-- from FILE --> or <!-- all of FILE -->, then a fenced block.
MARK = re.compile(r"^<!-- (from|all of) (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# A message in troubleshooting.md: a heading that is code. … stands for what differs.
MESSAGE = re.compile(r"^### `(.+)`$", re.MULTILINE)
SOURCES = ("apps", "python/sluice", "src")


def missing_code(guide_text, read):
    """The marked blocks that are not in the file they name."""
    wrong = []
    for kind, name, block in MARK.findall(guide_text):
        source = read(name)
        if kind == "all of":
            found = block == source
        else:
            margins = {len(line) - len(line.lstrip()) for line in source.splitlines() if line}
            found = any(textwrap.indent(block, " " * margin) in source for margin in margins)
        if not found:
            wrong.append(f"{name}:\n{block}")
    return wrong


def anchor(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def source_text():
    """All string literals of the sources, joined as compilers join adjacent ones."""
    files = [p for folder in SOURCES for p in sorted((ROOT / folder).rglob("*"))
             if p.suffix in (".py", ".cc", ".h") and "_test" not in p.name]
    text = "".join(p.read_text(encoding="utf-8") for p in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


class Guides(unittest.TestCase):
    def test_marked_code_is_in_a_file_that_runs(self):
        count = 0
        for guide in GUIDES:
            text = guide.read_text(encoding="utf-8")
            count += len(MARK.findall(text))
            # A mark that is not directly before a block would check nothing.
            self.assertEqual(len(MARK.findall(text)),
                             len(re.findall(r"<!-- (?:from|all of) ", text)), guide)
            wrong = missing_code(text, lambda name: (ROOT / name).read_text(encoding="utf-8"))
            self.assertEqual(wrong, [], guide)
        self.assertGreater(count, 8)

    def test_python_and_c_blocks_are_marked(self):
        for guide in GUIDES:
            text = guide.read_text(encoding="utf-8")
            self.assertEqual(len(re.findall(r"^```(?:python|c)$", text, re.MULTILINE)),
                             len(MARK.findall(text)), guide)

    def test_changed_code_is_noticed(self):
        source = "def f():\n    a = 1\n    b = 2\n"
        for block, wrong in (("a = 1\nb = 2\n", 0), ("    a = 1\n", 0), ("a = 1\nb = 3\n", 1),
                             ("a = 1\n  b = 2\n", 1)):
            text = f"<!-- from x.py -->\n```python\n{block}```\n"
            self.assertEqual(len(missing_code(text, lambda _: source)), wrong, block)
        text = "<!-- all of x.py -->\n```python\ndef f():\n```\n"
        self.assertEqual(len(missing_code(text, lambda _: source)), 1)

    def test_links_lead_somewhere(self):
        for guide in GUIDES:
            for link in LINK.findall(guide.read_text(encoding="utf-8")):
                if link.startswith(("http://", "https://")):
                    continue
                name, _, place = link.partition("#")
                target = (guide.parent / name).resolve() if name else guide
                self.assertTrue(target.exists(), f"{guide.name}: {link}")
                if place:
                    headings = HEADING.findall(target.read_text(encoding="utf-8"))
                    self.assertIn(place, [anchor(h) for h in headings], f"{guide.name}: {link}")

    def test_messages_are_those_of_the_source(self):
        text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
        messages, source = MESSAGE.findall(text), source_text()
        self.assertGreater(len(messages), 10)
        for message in messages:
            for part in message.split("…"):
                self.assertTrue(part.strip() in source, f"{part.strip()!r} of {message!r}")

    def test_messages_of_mpi_are_those_of_the_source(self):
        table = (ROOT / "docs/mpi.md").read_text(encoding="utf-8").split("## What goes wrong\n")[1]
        messages = re.findall(r"^\| `(mpi.*?)` \|", table, re.MULTILINE)
        source = source_text()
        self.assertGreater(len(messages), 6)
        for message in messages:
            for part in message.split("…"):
                self.assertTrue(part.strip() in source, f"{part.strip()!r} of {message!r}")


class EnvironmentTable(RecipeTest):
    TOOL = str(ROOT / "tools/environment_table")

    def call(self, *arguments):
        return subprocess.run([sys.executable, self.TOOL, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def test_is_up_to_date(self):
        done = self.call("--check")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_notices_and_repairs_a_change(self):
        file = pathlib.Path(self.path("environment.md"))
        shutil.copy(ROOT / "docs/environment.md", file)
        self.assertEqual(self.call(str(file)).returncode, 0)
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("1 to 16 |", "1 to 17 |"), encoding="utf-8")
        done = self.call("--check", str(file))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("1 to 16", done.stdout)
        self.assertEqual(self.call(str(file)).returncode, 0)
        self.assertEqual(file.read_text(encoding="utf-8"), text)

    def test_refuses_a_file_without_markers(self):
        file = pathlib.Path(self.path("environment.md"))
        file.write_text("no table\n", encoding="utf-8")
        done = self.call(str(file))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("marker", done.stdout)


if __name__ == "__main__":
    unittest.main()
