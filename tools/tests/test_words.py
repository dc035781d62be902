"""docs/words.md and docs/ARCHITECTURE.md say what the tree has: words, layers, types, files.

    python3 -m unittest discover tools/tests
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parent.parent
ROOT = TOOLS.parent
sys.path.insert(0, str(TOOLS))
import house  # noqa: E402
SOURCES = ("src", "apps", "sim", "python")
SUFFIXES = (".h", ".cc", ".cuh", ".cu", ".py")
ARCHITECTURE_WORDS_MAX = 2300  # ten minutes of reading
CODE = re.compile(r"`([^`]+)`")
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def load(name):
    """A script of tools as a module; it has no suffix."""
    loader = importlib.machinery.SourceFileLoader(name, str(TOOLS / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


layers = load("layers")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(text, heading):
    """The cells of all tables whose first heading is this."""
    found, inside = [], False
    for line in text.split("\n"):
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if inside and set(line) - set("|-: "):
            found.append(cells)
        inside = inside or cells[0] == heading
    return found


def parts(text):
    """The words of identifiers and comments, small: FusedPort, fused_port -> fused, port."""
    return {part.lower() for part in PART.findall(text)}


def sources():
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in SUFFIXES:
                yield path


def forms(word):
    """As code may write it."""
    return {word, word + "s", word.rstrip("s"), re.sub("y$", "ies", word), re.sub("ing$", "", word)}


def wrong_layers(table, known):
    """Where rows of (layer, what, may use) are not those of tools/layers, in the same order."""
    told = [(CODE.findall(row[0]), tuple(CODE.findall(row[2]))) for row in table]
    wanted = [([layer], tuple(uses)) for layer, uses in known.items()]
    return [one for one in told if one not in wanted] + [one for one in wanted if one not in told]


class Reading(unittest.TestCase):
    def test_rows_are_those_of_the_table(self):
        text = "| word | b |\n|---|---|\n| x | `y` |\n\n| other | b |\n|---|---|\n| z | z |\n"
        self.assertEqual(rows(text, "word"), [["x", "`y`"]])
        self.assertEqual(rows(text, "none"), [])

    def test_parts_of_identifiers(self):
        self.assertEqual(parts("FusedPort kWholeMax a_wave UDP"),
                         {"fused", "port", "k", "whole", "max", "a", "wave", "udp"})

    def test_another_layer_is_noticed(self):
        known = {"a": (), "b": ("a",)}
        good = [["`a`", "", ""], ["`b`", "", "`a`"]]
        self.assertEqual(wrong_layers(good, known), [])
        self.assertEqual(len(wrong_layers(good[:1], known)), 1)
        self.assertEqual(len(wrong_layers([good[0], ["`b`", "", "`c`"]], known)), 2)


class Words(unittest.TestCase):
    def test_one_row_each(self):
        words = [row[0] for row in rows(read("docs/words.md"), "word")]
        self.assertGreater(len(words), 80)
        self.assertEqual(sorted({word for word in words if words.count(word) > 1}), [])

    def test_every_word_is_in_the_sources(self):
        found = set()
        for path in sources():
            found |= parts(path.read_text(encoding="utf-8"))
        missing = [row[0] for row in rows(read("docs/words.md"), "word")
                   if not forms(row[0]) & found]
        self.assertEqual(missing, [])


class Names(unittest.TestCase):
    def test_no_two_source_files_share_a_name(self):
        often = ("main.cc", "__init__.py")
        names = [os.path.basename(path) for path in house.files(ROOT)
                 if path.endswith((".h", ".hpp", ".cuh", ".cc", ".cu", ".py"))]
        self.assertGreater(len(names), 700)
        self.assertEqual(sorted({name for name in names
                                 if names.count(name) > 1 and name not in often}), [])


class Architecture(unittest.TestCase):
    def test_fits_in_ten_minutes(self):
        self.assertLessEqual(len(read("docs/ARCHITECTURE.md").split()), ARCHITECTURE_WORDS_MAX)

    def test_layers_are_those_of_the_tool(self):
        table = rows(read("docs/ARCHITECTURE.md"), "layer")
        self.assertEqual(wrong_layers(table, layers.LAYERS), [])
        self.assertEqual([CODE.findall(row[0])[0] for row in table], list(layers.LAYERS))

    def test_what_the_drawings_name_is_there(self):
        paths = ["/" + str(path.relative_to(ROOT)) for path in sources()]
        text = "\n".join(path.read_text(encoding="utf-8") for path in sources())
        boxes = rows(read("docs/ARCHITECTURE.md"), "box")
        self.assertGreater(len(boxes), 15)
        for box in boxes:
            for name in CODE.findall(box[2]):
                if "." in name:
                    self.assertTrue(any(path.endswith("/" + name) for path in paths), name)
                else:
                    self.assertRegex(text, rf"\b{name}\b", box[0])

    def test_links_lead_somewhere(self):
        pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "src").rglob("README.md")]
        for page in pages:
            for link in LINK.findall(page.read_text(encoding="utf-8")):
                name, _, place = link.partition("#")
                if name.startswith(("http:", "https:")):
                    continue
                target = (page.parent / name).resolve() if name else page
                self.assertTrue(target.exists(), f"{page.name}: {link}")
                if place:
                    headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"),
                                          re.MULTILINE)
                    anchors = [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-")
                               for h in headings]
                    self.assertIn(place, anchors, f"{page.name}: {link}")


if __name__ == "__main__":
    unittest.main()
