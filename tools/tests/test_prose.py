"""tools/prose counts what a reader reads, and goes red on sentences that are too long.

    python3 -m unittest discover tools/tests
"""

import importlib.machinery
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TOOLS.parent
sys.path.insert(0, str(TOOLS))
README_WORDS_MAX = 1000
P90_MAX = 30  # words per sentence
SENTENCE_MAX = 40


def load():
    """The script as a module; it has no suffix."""
    loader = importlib.machinery.SourceFileLoader("prose", str(TOOLS / "prose"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("prose", loader))
    sys.modules["prose"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


prose = load()


def of(count, end="."):
    """A sentence of so many words."""
    return " ".join(["Word", *["word"] * (count - 1)]) + end


class Sentences(unittest.TestCase):
    def found(self, text):
        return [(s.line, s.text) for s in prose.sentences(text)]

    def words(self, text):
        return [s.words for s in prose.sentences(text)]

    def test_end_at_a_mark_or_with_the_paragraph(self):
        self.assertEqual(self.found("One two. Three?\nFour five! (Six.) Seven:\n\nEight"),
                         [(1, "One two."), (1, "Three?"), (2, "Four five!"), (2, "(Six.)"),
                          (2, "Seven:"), (4, "Eight")])

    def test_span_lines(self):
        self.assertEqual(self.found("A b. C\nd\ne. F"), [(1, "A b."), (1, "C d e."), (3, "F")])

    def test_do_not_end_within_numbers_and_abbreviations(self):
        self.assertEqual(self.words("It has 4.8 bits, e.g. Tide, i.e. What we use, vs. 32."), [12])

    def test_may_begin_with_code_or_a_variable(self):
        self.assertEqual(self.words("One two. `a b` is three. s is the scale."), [2, 3, 4])

    def test_list_items_are_apart(self):
        self.assertEqual(self.words("Before:\n- one two\n- three\n  four\n1. five\n2) six seven\n"),
                         [1, 2, 2, 1, 2])

    def test_words_have_a_letter_or_a_digit(self):
        self.assertEqual(self.words("One — two ÷ 3 … **four**."), [4])

    def test_code_tables_headings_and_rules_do_not_count(self):
        for block in ("```\nfour words in code\n```", "~~~ sh\na\n```\nb\n~~~", "````\n```\n````",
                      "    indented code\n\n    more", "| a table | b |\n|---|---|\n| c | d |",
                      "# Heading of words", "---", "[name]: https://example.org/a",
                      "- ```\n  code\n  ```"):
            self.assertEqual(self.words(f"One.\n\n{block}\n\nTwo three.\n"), [1, 2], block)

    def test_a_paragraph_ends_where_a_block_begins(self):
        self.assertEqual(self.found("One:\n```\nx\n```\ntwo\n| t |\nthree"),
                         [(1, "One:"), (5, "two"), (7, "three")])

    def test_what_is_indented_below_an_item_is_prose(self):
        self.assertEqual(self.words("1. one\n\n    two three\n\nFour.\n\n    code here\n"),
                         [1, 2, 1])

    def test_html_pictures_and_targets_do_not_count(self):
        self.assertEqual(self.found("<!-- no\nno. No --> One [two\nthree](a/b.md#c) <b>four</b>."),
                         [(2, "One two three four.")])
        self.assertEqual(self.words("![A picture of it](x.svg)"), [])
        self.assertEqual(self.words("One [two][ref] <https://example.org/a.b>. Three."), [3, 1])

    def test_code_is_one_word(self):
        self.assertEqual(self.words("Run `a --b c. D` and ``e `f` g`` or `h\ni` here."), [7])
        self.assertEqual(self.words("Write `<!-- mark` here. Then `-->` there."), [3, 3])

    def test_code_does_not_reach_over_a_paragraph(self):
        self.assertEqual(self.words("A ` alone.\n\nTwo words, ` too."), [2, 3])

    def test_nothing(self):
        self.assertEqual(self.words(""), [])
        self.assertEqual(prose.p90([]), 0)


class Percentile(unittest.TestCase):
    def test_nine_of_ten_are_no_longer(self):
        self.assertEqual(prose.p90([7]), 7)
        self.assertEqual(prose.p90(range(1, 11)), 9)
        self.assertEqual(prose.p90(range(1, 12)), 10)
        self.assertEqual(prose.p90([50] + [5] * 9), 5)


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def file(self, name, *lengths):
        path = self.root / name
        path.write_text("".join(f"{of(length)}\n\n" for length in lengths), encoding="utf-8")
        return path

    def run_tool(self, *arguments):
        done = subprocess.run([sys.executable, str(TOOLS / "prose"), *map(str, arguments)],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_figures_of_every_file(self):
        a, b = self.file("a.md", 3, 12, 5), self.file("b.md")
        self.assertEqual(self.run_tool(a, b), (0, (
            f"{a}: 20 words, 3 sentences, p90 12, longest 12\n    line 3: {of(12)}\n"
            f"{b}: 0 words, 0 sentences, p90 0, longest 0\nprose: 0 violations in 2 files\n"), ""))

    def test_limit_of_p90(self):
        path = self.file("a.md", *[5] * 8, 31, 35)
        self.assertEqual(self.run_tool("--limit", "31", path)[0], 0)
        code, output, _ = self.run_tool("--limit", "30", path)
        self.assertEqual(code, 1)
        self.assertIn(f"{path}:1: p90 of 31 words per sentence, limit 30", output)
        self.assertIn("prose: 1 violations in 1 files", output)

    def test_limit_of_every_sentence(self):
        path = self.file("a.md", *[5] * 30, 41)
        self.assertEqual(self.run_tool("--limit", "30", "--longest", "41", path)[0], 0)
        code, output, _ = self.run_tool("--limit", "30", "--longest", "40", path)
        self.assertEqual(code, 1)
        self.assertIn(f"{path}:61: sentence of 41 words, limit 40, split it: Word word", output)

    def test_one_bad_file_of_several_is_red(self):
        good, bad = self.file("a.md", 5), self.file("b.md", 45)
        self.assertEqual(self.run_tool("--longest", "40", bad, good)[0], 1)

    def test_a_file_that_is_not_there(self):
        code, _, error = self.run_tool(self.root / "x.md")
        self.assertEqual(code, 2)
        self.assertRegex(error, r"^prose: .*x\.md: No such file.*; accepted: a Markdown file\n$")


class Pages(unittest.TestCase):
    """What a stranger reads stays readable."""

    def test_sentences(self):
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
                 *sorted((ROOT / "src").rglob("README.md"))]
        self.assertGreater(len(pages), 20)
        for page in pages:
            found = prose.sentences(page.read_text(encoding="utf-8"))
            self.assertLessEqual(prose.p90([s.words for s in found]), P90_MAX, page)
            self.assertEqual([s.text for s in found if s.words > SENTENCE_MAX], [], page)

    def test_length_of_the_readme(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text(encoding="utf-8").split()),
                             README_WORDS_MAX)


if __name__ == "__main__":
    unittest.main()
