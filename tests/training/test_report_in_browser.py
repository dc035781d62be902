"""bench/training/report: the page in a browser, on screens from narrow to wide."""

import copy
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
import unittest.mock

import sample_results
from browser import Browser
from sample_results import HOSTILE, small

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "training"))
import report  # noqa: E402
from report import markup  # noqa: E402

# What a reader would see of the charts: how wide the page is, what has a size, whose text is not in
# its card or is on another's.
LOOK = """(() => {
  const box = (node) => node.getBoundingClientRect();
  const all = (query, node = document) => [...node.querySelectorAll(query)];
  const cut = [], crossed = [];
  for (const figure of all("figure")) {
    const card = box(figure);
    const texts = all("text", figure).map((node) => [node.textContent, box(node)])
      .filter(([, b]) => b.width > 0);
    texts.forEach(([words, b], i) => {
      if (b.left < card.left || b.right > card.right || b.top < card.top ||
          b.bottom > card.bottom) cut.push(words);
      for (const [other, o] of texts.slice(i + 1)) {
        if (Math.min(b.right, o.right) - Math.max(b.left, o.left) > 1 &&
            Math.min(b.bottom, o.bottom) - Math.max(b.top, o.top) > 3) {
          crossed.push(words + " / " + other);
        }
      }
    });
  }
  const sized = (query) => all(query).filter((n) => box(n).width > 0 && box(n).height > 0).length;
  const cells = all("tbody td, tbody th").filter((n) => n.scrollWidth > n.clientWidth + 1 ||
                                            box(n).right > innerWidth);
  return {
    scroll: document.documentElement.scrollWidth, width: document.documentElement.clientWidth,
    figures: sized("figure"), lines: sized("figure path.line"), bars: sized("figure rect.sent"),
    spans: sized("figure rect.bucket"), markers: sized("figure use"),
    texts: sized("figure text"), cut, crossed, cells: cells.map((n) => n.textContent),
  };
})()"""

# Contrasts as WCAG 2.2 defines them, of what is painted against its card or page.
CONTRAST = """(() => {
  const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const style = (query) => getComputedStyle(document.querySelector(query));
  const card = style("figure").backgroundColor, page = style("body").backgroundColor;
  const against = (a, b) => {
    const [x, y] = [light(a), light(b)].sort();
    return (y + 0.05) / (x + 0.05);
  };
  const found = {};
  for (const name of [".tick", ".value", ".target-text"]) {
    found[name] = against(style(name).fill, card);
  }
  for (const name of [".headline", ".facts"]) found[name] = against(style(name).color, page);
  for (const name of ["td", "tbody small", "figcaption p"]) {
    found[name] = against(style(name).color, card);
  }
  const lines = [...document.querySelectorAll("#job0 .legend .line")]
    .map((line) => against(getComputedStyle(line).stroke, card));
  return [found, lines, light(page)];
})()"""

MIDDLE = """((node) => {
  node.scrollIntoView({block: "center"});
  const b = node.getBoundingClientRect();
  return [b.left + b.width / 2, b.top + b.height / 2];
})(document.querySelector(%s))"""


REST = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class InABrowser(unittest.TestCase):
    """Chromium has to be there: without it these fail."""

    @classmethod
    def setUpClass(cls):
        cls.results = sample_results.make()
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, results=None, width=1280, change=lambda text: text, **more):
        path = self.folder / "report.html"
        report.write(results or self.results, path)
        path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
        self.browser.open(path, width, **more)

    def middle(self, query):
        """Where the middle of an element is, which is then in view."""
        return self.browser.evaluate(MIDDLE % json.dumps(query))

    def click(self, query):
        at = self.middle(query)
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.pointer(kind, *at)

    def tip(self):
        """(its words, its left and right edge), or None while it is hidden."""
        return self.browser.evaluate("""((tip) => tip.hidden ? null : ((box) => [tip.innerText,
            box.left, box.right])(tip.getBoundingClientRect()))(document.getElementById("tip"))""")

    def check_look(self, results, width):
        """What LOOK finds, after the checks that hold for every report."""
        self.open(results, width)
        seen = self.browser.evaluate(LOOK)
        self.assertEqual(self.browser.problems, [])
        self.assertEqual((seen["width"], seen["scroll"]), (width, width))
        for what in ("cut", "crossed", "cells"):
            self.assertEqual(seen[what], [], (what, width))
        return seen

    def test_everything_is_drawn_and_nothing_is_cut_at_any_width(self):
        jobs = self.results["jobs"]
        spans = sum(span["what"].startswith("bucket") for job in jobs
                    for c in job["configurations"] if c["trace"] for span in c["trace"]["spans"])
        errors = sum(layer["vnmse"] > 1e-9 for job in jobs for c in job["configurations"]
                     for layer in c["layers"])
        for width in (320, 360, 390, 768, 900, 1280, 1920):
            seen = self.check_look(None, width)
            self.assertEqual(seen["figures"], 14)
            # Two charts of seven in each of two jobs, and one for each of two heads.
            self.assertEqual(seen["lines"], 42)
            self.assertEqual(seen["bars"], 13)   # One was not measured.
            self.assertEqual(seen["spans"], spans)
            self.assertEqual(seen["markers"], 42 + errors)
            self.assertGreater(seen["texts"], 200)

    def test_odd_results_are_no_wider(self):
        long = copy.deepcopy(self.results)
        for job in long["jobs"]:
            for one in job["configurations"]:
                one["title"] = "a title that is far longer than anybody needs " + one["title"] * 3
                for layer in one["layers"]:
                    layer["name"] = f"_orig_mod.module.base.{layer['name']}"
        long["jobs"][0]["configurations"][-1]["seeds"][1]["failed"] = "x" * 300
        slow = copy.deepcopy(self.results)
        for one in slow["jobs"][0]["configurations"]:
            for key in ("compute_s", "communication_s", "step_s", "exposed_s"):
                one["trace"][key] *= 1234.5
            for span in one["trace"]["spans"]:
                span |= {"from": 1234.5 * span["from"], "to": 1234.5 * span["to"]}
            for seed in one["seeds"]:
                seed["held_out"] = [[100 * a, 1000 * b, c / 1000] for a, b, c in seed["held_out"]]
                seed["target"] /= 1000
                seed["sent_bytes_per_step"] = (seed["sent_bytes_per_step"] or 0) * 1000
        for results in (long, slow, small(), {"jobs": [{}]}, {}):
            for width in (360, 1280):
                self.check_look(results, width)

    def test_the_checks_see_a_page_that_is_broken(self):
        self.open(width=360, change=lambda text: text.replace(
            "</main>", '<div style="width:900px">wide</div></main>'))
        self.assertGreater(self.browser.evaluate(LOOK)["scroll"], 360)
        self.open(change=lambda text: text.replace("font-size: 12px", "font-size: 40px")
                  .replace("font-size: 11px", "font-size: 40px"))
        seen = self.browser.evaluate(LOOK)
        self.assertTrue(seen["cut"] and seen["crossed"])
        self.open(change=lambda text: text.replace("script-src ", "script-src 'unsafe-inline' #")
                  .replace("</main>", "</main><script>nothing.at.all</script>"))
        self.assertIn("nothing is not defined", " ".join(self.browser.problems))
        for inserted in ("<script>window.hit = 1</script>", "<img src=x onerror='window.hit = 1'>",
                         "<link rel=stylesheet href='file:///nowhere.css'>"):
            self.open(change=lambda text, more=inserted: text.replace("</main>", f"</main>{more}"))
            self.assertNotEqual(self.browser.problems, [], inserted)
            self.assertIsNone(self.browser.evaluate("window.hit"))

    def test_names_stay_text(self):
        results = small()
        job = results["jobs"][0]
        job["name"] = job["title"] = job["configurations"][1]["title"] = HOSTILE
        job["configurations"][1]["layers"][0]["name"] = HOSTILE
        self.open(results)
        self.assertEqual(self.browser.problems, [])
        self.assertIsNone(self.browser.evaluate("window.hit"))
        self.assertEqual(self.browser.evaluate(
            "[...document.querySelectorAll('table:first-of-type tbody th span')]"
            ".map((n) => n.textContent)"),
            ["DDP, Gloo float32", HOSTILE])
        self.assertEqual(self.browser.evaluate(
            "JSON.parse(document.getElementById('results').textContent)"), results)

    def test_legend_hides_a_configuration_in_its_job_with_and_without_scripts(self):
        shown = """["job0", "job1"].map((job) => [...document.querySelectorAll(
            `#${job} figure .t2`)].filter((n) => n.getBoundingClientRect().width > 0).length)"""
        for scripts in (True, False):
            self.open(scripts=scripts)
            before = self.browser.evaluate(shown)
            height = self.browser.evaluate("document.body.scrollHeight")
            self.click("#job0 .legend label:nth-child(3)")
            self.assertEqual(self.browser.evaluate(shown), [0, before[1]])
            self.assertLess(self.browser.evaluate("document.body.scrollHeight"), height)
            self.click("#job0 .legend label:nth-child(3)")
            self.assertEqual(self.browser.evaluate(shown), before)
            self.assertGreater(min(before), 5)

    def test_pointer_shows_the_values_of_the_nearest_points(self):
        self.open()
        at = self.middle("#job1 svg.lines")
        self.browser.evaluate(REST)  # The event of having scrolled would hide what is shown.
        self.browser.pointer("mouseMoved", *at)
        lines = self.tip()[0].split("\n")
        configurations = self.results["jobs"][1]["configurations"]
        self.assertEqual(len(lines), len(configurations))
        middle = max(c["seeds"][0]["held_out"][-1][1] for c in configurations) / 2
        for line, one in zip(lines, configurations):
            point = min(one["seeds"][0]["held_out"], key=lambda p: abs(p[1] - middle))
            name, _, values = line.rpartition(": ")
            loss, seconds = map(float, values.removesuffix(" s").split(" at "))
            self.assertEqual(name, one["title"])
            self.assertAlmostEqual(seconds, point[1], delta=0.02)
            self.assertAlmostEqual(loss, point[2], delta=0.001)
        self.browser.pointer("mouseMoved", 2, 2)
        self.assertIsNone(self.tip())
        self.assertEqual(self.browser.problems, [])

    def test_tap_shows_the_value_of_a_mark_within_the_screen(self):
        self.open(width=360)
        layer = self.results["jobs"][0]["configurations"][1]["layers"][0]
        at = self.middle("#job0 use.t1[data-tip]")
        self.browser.evaluate(REST)
        self.browser.tap(*at)
        self.browser.evaluate(REST)
        text, left, right = self.tip()
        self.assertEqual(text, f"{layer['name']}\n"
                               f"DDP, bf16 hook: {markup.number(layer['vnmse'], 2)}")
        self.assertTrue(0 <= left < right <= 360)

    def test_colours_can_be_told_from_their_ground_in_light_and_dark(self):
        for dark in (False, True):
            self.open(dark=dark)
            texts, lines, page_light = self.browser.evaluate(CONTRAST)
            self.assertEqual(page_light < 0.1, dark)
            for name, contrast in texts.items():
                self.assertGreaterEqual(contrast, 4.5, (name, dark))
            for index, contrast in enumerate(lines):
                self.assertGreaterEqual(contrast, 3, (index, dark))


class WithoutABrowser(unittest.TestCase):
    def test_missing_chromium_is_said(self):
        with unittest.mock.patch.dict("os.environ", {"PATH": "/nowhere"}):
            with self.assertRaisesRegex(FileNotFoundError, "apt-get install chromium"):
                Browser()
