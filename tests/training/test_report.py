"""bench/training/report: scales, figures, charts and the page as text."""

import html.parser
import json
import math
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

import sample_results
from sample_results import HOSTILE, small

REPORT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "training" / "report"
sys.path.insert(0, str(REPORT.parent))
from report import axes, charts, figures, markup, page  # noqa: E402


class Reader(html.parser.HTMLParser):
    """Every element as (tag, attributes, text in it, with small on a line of its own).

    A tag left open is an error.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self._open = [], []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag, attrs):
        if tag == "small":
            self.handle_data("\n")
        self.elements.append([tag, dict(attrs), ""])
        if tag not in markup.VOID:
            self._open.append(self.elements[-1])

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag, tag

    def handle_data(self, data):
        for found in self._open:
            found[2] += data

    def texts(self, tag, **attributes):
        return [text for name, own, text in self.elements
                if name == tag and attributes.items() <= own.items()]


def broken_in_turn(change):
    """(path, results) for every leaf; change gets what holds it and its key there."""
    for path in leaves(small()):
        results = at = small()
        for key in path[:-1]:
            at = at[key]
        if change(at, path[-1]):
            yield path, results


def leaves(value, path=()):
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def configuration(*points, title="x", **more):
    return {"title": title, "kind": "sluice", "seeds": [
        {"seed": 1, "held_out": list(points), "failed": None, **more}]}


class Scales(unittest.TestCase):
    def test_ticks_are_round_numbers_within(self):
        self.assertEqual(axes.ticks(0, 72), [0, 20, 40, 60])
        self.assertEqual(axes.ticks(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1])
        self.assertEqual(axes.ticks(2.72, 5.9), [3, 4, 5])
        self.assertEqual(axes.ticks(-0.3, 0.3, 3), [-0.2, 0, 0.2])
        self.assertEqual(axes.ticks(1e-7, 5e-7, 4), [1e-7, 2e-7, 3e-7, 4e-7, 5e-7])
        self.assertEqual(axes.ticks(5, 5), [5])
        self.assertEqual(axes.ticks(2, 1), [2])

    def test_there_are_some_ticks_and_not_many_whatever_the_span(self):
        for exponent in range(-12, 13):
            for factor in (1, 1.3, 2, 3.7, 5, 9.99):
                found = axes.ticks(0, factor * 10.0 ** exponent)
                self.assertTrue(3 <= len(found) <= 6, (factor, exponent, found))

    def test_log_ticks_are_powers_of_ten_and_are_thinned(self):
        self.assertEqual(axes.log_ticks(1e-3, 1), [1e-3, 1e-2, 1e-1, 1])
        self.assertEqual(axes.log_ticks(2e-3, 0.5), [1e-2, 1e-1])
        self.assertEqual(axes.log_ticks(1e-9, 10), [1e-9, 1e-7, 1e-5, 1e-3, 0.1, 10])

    def test_axis_places_values(self):
        self.assertEqual([axes.Axis(2, 4).at(v) for v in (2, 3, 4, 5)], [0, 0.5, 1, 1.5])
        self.assertEqual(axes.Axis(0, 8).percent(1), "12.50%")
        log = axes.Axis(1e-4, 1, log=True)
        self.assertEqual([round(log.at(v), 12) for v in (1e-4, 1e-2, 1)], [0, 0.5, 1])
        self.assertEqual([text for _, text in log.ticks()], ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"])

    def test_tick_texts_have_the_decimals_of_their_step(self):
        def texts(*arguments):
            return [text for _, text in axes.Axis(*arguments).ticks()]
        self.assertEqual(texts(0, 1), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"])
        self.assertEqual(texts(0, 5000), ["0", "1,000", "2,000", "3,000", "4,000", "5,000"])
        self.assertEqual(texts(-1, 0.5, "", " s")[:3], ["−1.0 s", "−0.5 s", "0"])

    def test_axes_of_nothing_of_one_value_and_of_zeros(self):
        for axis in (axes.from_zero([]), axes.from_zero([0.0]), axes.around([], ""),
                     axes.around([0.0], ""), axes.around([-3.5], ""), axes.decades([], ""),
                     axes.decades([0.01], "")):
            self.assertLess(axis.low, axis.high)
            self.assertTrue(axis.ticks())
        self.assertEqual(axes.around([2.0], "").at(2.0), 0.5)
        self.assertEqual(axes.decades([3e-5, 0.2], "").low, 1e-5)
        self.assertEqual(axes.decades([3e-5, 0.2], "").high, 1)
        self.assertEqual(axes.from_zero([60, 75], room=0.25).at(75), 0.75)


class Numbers(unittest.TestCase):
    def test_significant_digits(self):
        for value, text in ((3.4159, "3.42"), (0, "0.00"), (66.13, "66.1"), (1234567, "1,234,567"),
                            (0.0014, "0.00140"), (0.00002, "2.00·10⁻⁵"), (9.999, "10.0"),
                            (-0.25, "−0.250"), (2.5e12, "2.50·10¹²"), (None, "—")):
            self.assertEqual(markup.number(value), text)
        self.assertEqual(markup.number(0.6, 2, "s"), "0.60\N{NO-BREAK SPACE}s")

    def test_shares(self):
        self.assertEqual(markup.percent(0.79), "79\N{NO-BREAK SPACE}%")
        self.assertEqual(markup.percent(0.0021, 1, "+"), "+0.2\N{NO-BREAK SPACE}%")
        self.assertEqual(markup.percent(-0.00001, 1, "+"), "0.0\N{NO-BREAK SPACE}%")
        self.assertEqual(markup.percent(-0.05, 0, "+", ""), "−5")
        self.assertEqual(markup.percent(None), "—")

    def test_elements_escape_all_but_elements(self):
        inner = markup.element("b", "<&>")
        self.assertEqual(inner, "<b>&lt;&amp;&gt;</b>")
        self.assertEqual(markup.element("p", inner, '"', None, class_='"', data_x=None),
                         '<p class="&quot;"><b>&lt;&amp;&gt;</b>&quot;</p>')


class Figures(unittest.TestCase):
    def rows(self, reference, other):
        """From seconds to the target by seed; None: not reached."""
        return figures.rows_of({"configurations": [
            {"title": title, "kind": kind, "seeds": [
                {"seed": seed, "seconds_to_target": value, "final_loss": loss}
                for seed, value in seconds.items()]}
            for title, kind, seconds, loss in (("dense", "baseline", reference, 2.0),
                                               ("ours", "sluice", other, 2.01))]})

    def test_speed_up_is_paired_by_seed_and_then_the_median(self):
        row = self.rows({1: 10, 2: 20, 3: 90}, {3: 30, 2: 10, 1: 2})[1]
        self.assertEqual(row.speed_up, figures.Spread(3, 2, 5, 3))
        self.assertAlmostEqual(row.difference.median, 0.005)

    def test_seeds_that_did_not_reach_the_target_have_no_speed_up(self):
        self.assertIsNone(self.rows({1: 10}, {1: None})[1].speed_up)
        self.assertIsNone(self.rows({1: None}, {1: 10})[1].speed_up)
        self.assertIsNone(self.rows({1: 10}, {2: 10})[1].speed_up)
        self.assertEqual(self.rows({1: 10, 2: 10}, {1: 5, 2: None})[1].speed_up.count, 1)

    def test_headline(self):
        def first(*arguments):
            return figures.headline(self.rows(*arguments))[0]
        self.assertEqual(first({1: 10}, {1: 4}), "ours reached the target loss 2.50 × sooner than "
                                                 "dense; final loss +0.5\N{NO-BREAK SPACE}%.")
        self.assertIn("later: it took 2.00 × as long as dense", first({1: 10}, {1: 20}))
        self.assertIn("in 1 of 2 seeds 2.50 × sooner", first({1: 10, 2: 10}, {1: 4, 2: None}))
        self.assertEqual(first({1: 10}, {1: None}),
                         "No Sluice configuration reached the target loss.")
        self.assertEqual(first({1: None}, {1: 4}),
                         "dense did not reach the target loss: nothing to compare.")
        self.assertEqual(figures.headline([]), ("Nothing was measured.", None))

    def test_best_is_one_that_reached_the_target_with_every_seed(self):
        made = [figures.rows_of({"configurations": [{"seeds": [
            {"seed": s, "seconds_to_target": v} for s, v in enumerate(values)], "kind": "sluice"}
            for values in ((9, 9), (1, None), (3, 3), (4, 4))]})]
        self.assertEqual(figures.best_of(made[0], "sluice").index, 2)
        self.assertIsNone(figures.best_of(made[0], "baseline"))

    def test_median_line_is_over_the_seeds_that_have_a_step(self):
        seeds = [[[0, 0, 5], [10, 1, 4], [20, 2, 3]], [[0, 0, 7], [10, 3, 2], [20, 4, None]]]
        made = {"seeds": [{"seed": i, "held_out": points} for i, points in enumerate(seeds)]}
        self.assertEqual(figures.median_line(made, 1), [(0, 6), (2, 3)])
        self.assertEqual(figures.median_line(made, 0), [(0, 6), (10, 3)])
        self.assertEqual(figures.median_line({"seeds": []}, 0), [])


class Charts(unittest.TestCase):
    def lines(self, *configurations, target=None):
        text = charts.line_chart("t", "n", {"configurations": configurations}, 0, "x", target)
        return text, [attributes["d"] for tag, attributes, _ in Reader(text).elements
                      if tag == "path" and attributes["class"] == "line"]

    def test_lines_are_where_their_values_are(self):
        text, paths = self.lines(configuration([0, 0, 4], [10, 1, 2]))
        box = next(a for t, a, _ in Reader(text).elements if a.get("class") == "lines")
        low, high = map(float, box["data-y"].split())
        self.assertEqual(box["data-x"], "0.0 10.0")
        expected = [charts.PLOT * (high - loss) / (high - low) for loss in (4, 2)]
        self.assertEqual(paths, [f"M0.0,{expected[0]:.2f}L1000.0,{expected[1]:.2f}"])

    def test_one_point_none_and_nulls_only(self):
        self.assertEqual(len(self.lines(configuration([5, 1, 2.5]))[1]), 1)
        for empty in ((), (configuration(),), (configuration([0, None, None], [None, 1, 2]),),
                      (configuration([0, 0, 1], failed="died"),)):
            text, paths = self.lines(*empty)
            self.assertEqual(paths, [])
            self.assertIn("Not measured.", text)

    def test_one_that_diverges_does_not_flatten_the_others(self):
        text, _ = self.lines(configuration([0, 0, 4], [9, 1, 2]),
                             configuration([0, 0, 4], [9, 1, 1e30]))
        box = next(a for t, a, _ in Reader(text).elements if a.get("class") == "lines")
        self.assertLess(float(box["data-y"].split()[1]), 5)

    def test_error_of_zero_is_said_and_not_drawn(self):
        layers = [{"name": "a", "vnmse": 0.0}, {"name": "b", "vnmse": 0.01},
                  {"name": "c", "vnmse": None}]
        text = charts.layer_errors("t", "n.", [{"title": "x", "layers": layers}])
        self.assertIn("n. Below 10⁻⁹, so not drawn: x (1 of 3 layers).", text)
        self.assertEqual(text.count("<use"), 1)
        self.assertIn("Not measured.", charts.layer_errors("t", "n", [{"layers": layers[2:]}, {}]))

    def test_bars_of_a_step_end_where_their_values_are(self):
        trace = {"compute_s": 0.1, "communication_s": 0.4, "step_s": 0.5, "exposed_s": 0.4}
        found = charts.breakdown_of(trace, 1, "s")
        self.assertEqual([(kind, round(start, 9), end) for line in found
                          for kind, start, end, _ in line],
                         [("compute", 0, 0.1), ("communication", 0, 0.4), ("step", 0, 0.5),
                          ("exposed", 0.1, 0.5), ("floor", 0.4, 0.4)])
        self.assertEqual(found[2][0][3], "0.500\N{NO-BREAK SPACE}s, 1.25 ×")
        self.assertEqual(charts.breakdown_of({}, 1, "s"), [])
        self.assertIn("Not measured.", charts.breakdown("t", "n", [{"trace": None}, {}]))

    def test_buckets_have_a_row_each_and_the_thread_is_above(self):
        spans = [{"what": w, "from": a, "to": b} for w, a, b in (
            ("forward", 0, 1), ("bucket 1", 1, 3), ("bucket 0", 2, 4), ("bucket 1", 3, 4))]
        made = [{"title": "x", "trace": {"spans": spans + [{"what": "odd", "from": None}]}}]
        places = [(a["class"], int(a.get("y", 0)), a["x"], a["width"]) for tag, a, _ in
                  Reader(charts.timelines("t", "n", made)).elements
                  if tag == "rect" and "x" in a]
        self.assertEqual(places, [
            ("forward", 0, "0.00%", "25.00%"), ("bucket", 16, "25.00%", "50.00%"),
            ("bucket", 25, "50.00%", "50.00%"), ("bucket", 16, "75.00%", "25.00%")])


class Page(unittest.TestCase):
    def setUp(self):
        self.results = sample_results.make()

    def read(self, results=None):
        return Reader(page.page(figures.without_nonsense(results or self.results)))

    def test_every_number_of_the_table_is_that_of_the_results(self):
        cells = iter([text for tag, own, text in self.read().elements if tag == "td"])
        for job in self.results["jobs"]:
            reference = {s["seed"]: s for s in job["configurations"][0]["seeds"]}
            for place, one in enumerate(job["configurations"]):
                seeds = [s for s in one["seeds"] if not s["failed"]]
                self.check_cells([next(cells) for _ in range(6)], place, seeds,
                                 [reference[s["seed"]] for s in seeds])
            for place, one in enumerate(job["configurations"]):
                seeds = [s for s in one["seeds"] if not s["failed"]]
                for head, _ in enumerate(job.get("heads", [])):
                    self.check_head(next(cells), place, *([s["heads"][-1][head] for s in own] for
                                    own in (seeds, [reference[s["seed"]] for s in seeds])))
        self.assertEqual(list(cells), [])

    def check_cells(self, cells, place, seeds, references):
        pairs = list(zip(seeds, references))
        reached = [(s, r) for s, r in pairs if s["seconds_to_target"]]
        expected = (
            [s["seconds_to_target"] for s, _ in reached],
            [r["seconds_to_target"] / s["seconds_to_target"] for s, r in reached],
            [s["steps"] / s["train_seconds"] for s in seeds],
            [s["sent_bytes_per_step"] / 1e6 for s in seeds if s["sent_bytes_per_step"]],
            [s["final_loss"] for s in seeds],
            [100 * s["final_loss"] / r["final_loss"] - 100 for s, r in pairs if place])
        for cell, values in zip(cells, expected):
            median, *below = cell.split("\n")
            if not values:
                self.assertRegex(median, r"^(—|not reached)$")
                continue
            self.check_number(median, statistics.median(values))
            if below and "–" in below[0]:
                low, high = below[0].split("–")
                self.check_number(low, min(values))
                self.check_number(high, max(values))

    def check_head(self, cell, place, losses, references):
        shown = cell.split("\n")
        self.check_number(shown[0], statistics.median(losses))
        if place:
            self.check_number(shown[-1], statistics.median(
                100 * loss / other - 100 for loss, other in zip(losses, references)))

    def check_number(self, text, value):
        shown = re.match(r"[+−]?\d[\d,]*(?:\.\d+)?", text.strip())[0]
        unit = 10.0 ** -len(shown.partition(".")[2])
        self.assertAlmostEqual(float(shown.replace("−", "-").replace(",", "")), value,
                               delta=0.5001 * unit, msg=text)

    def test_headline_and_failed_seeds_are_said(self):
        found = self.read()
        lines = found.texts("p", **{"class": "headline"})
        self.assertEqual(len(lines), 2)
        self.assertRegex(lines[0], r"^tide:bits=4 over UDP reached the target loss 3\.\d\d × sooner"
                                   r" than DDP, Gloo float32; final loss \+0\.\d\s%\.$")
        self.assertEqual(found.texts("small", **{"class": "failed"}),
                         ["seed 2 failed: rank 2 was ended by SIGKILL"])

    def test_heads_have_a_column_and_a_chart_each(self):
        found = self.read()
        for words in ("left", "right"):
            self.assertIn(f"Final loss of {words}", found.texts("th", scope="col"))
            self.assertEqual(sum(text == f"Loss of {words} against steps"
                                 for text in found.texts("title")), 1)
        own = dict(figures.heads_of(self.results["jobs"][0]))["right"]
        seed, = (c["seeds"][1] for c in self.results["jobs"][0]["configurations"][3:4])
        line = figures.seed_lines(own["configurations"][3])[1]
        self.assertEqual([loss for _, _, loss in line], [pair[1] for pair in seed["heads"]])

    def test_loopback_is_said_prominently_and_only_then(self):
        self.assertEqual(self.read().texts("p", role="note"), [])
        self.results["network"] |= {"mode": "loopback", "why": "Operation not permitted"}
        note, = self.read().texts("p", role="note")
        self.assertIn("The links were not limited.", note)
        self.assertIn("Operation not permitted", note)

    def test_everything_said_about_the_run_is_there(self):
        text = self.read().texts("section", id="how")[0]
        for words in ("4 workers", "83.2mbit", "79\N{NO-BREAK SPACE}%",
                      "./run --quick", "sluice 0.5.0", "torch 2.15.0", "python 3.11.2",
                      "AMD EPYC 9R14, 2 cores", "312\N{NO-BREAK SPACE}s",
                      self.results["jobs"][0]["rate_why"], "codec tide:bits=4, over UDP",
                      "codec sign, with error feedback, over torch"):
            self.assertIn(words, text)

    def test_nothing_comes_from_elsewhere(self):
        text = page.page(self.results)
        self.assertNotRegex(text, r"https?:|url\((?!#)|@import|//[a-z]")
        for tag, attributes, _ in Reader(text).elements:
            self.assertNotIn("src", attributes, tag)
            self.assertTrue(attributes.get("href", "#").startswith("#"), attributes)
            self.assertNotIn(tag, ("link", "iframe", "object", "embed", "img", "base"))

    def test_results_are_in_the_page_unchanged(self):
        self.results["jobs"][0]["title"] = HOSTILE + "<!-- \u2028 é"
        text, = self.read().texts("script", id="results")
        self.assertEqual(json.loads(text), self.results)

    def test_names_are_text_wherever_they_come_from(self):
        usual = [tag for tag, _, _ in self.read(small()).elements]

        def change(at, key):
            if not isinstance(at[key], str) or key in ("mode", "kind"):
                return False
            at[key] = HOSTILE
            return True
        for path, results in broken_in_turn(change):
            tags = [tag for tag, _, _ in self.read(results).elements]
            for tag in ("script", "img", "b"):
                self.assertEqual(tags.count(tag), usual.count(tag), path)

    def test_any_figure_may_be_missing(self):
        def leave_out(at, key):
            return isinstance(at, dict) and (at.pop(key), True)[1]
        changes = [lambda at, key, nothing=nothing: (at.__setitem__(key, nothing), True)[1]
                   for nothing in (None, math.nan, -math.inf)]
        for change in (leave_out, *changes):
            for path, results in broken_in_turn(change):
                text = page.page(figures.without_nonsense(results))
                shown = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
                self.assertIsNone(re.search(r"\b(nan|inf|NaN|Infinity|None)\b", shown), path)

    def test_whole_parts_may_be_missing(self):
        for key, nothing in (("jobs", []), ("jobs", None), ("made", None), ("network", None)):
            self.read(small() | {key: nothing})
        for key in ("configurations", "title", "rate", "rate_why", "parameters"):
            results = small()
            results["jobs"][0][key] = None
            self.read(results)
        for key in ("seeds", "trace", "layers", "title"):
            results = small()
            for one in results["jobs"][0]["configurations"]:
                one[key] = None
            self.read(results)
        self.assertIn("No job was measured.", page.page({}))

    def test_document_has_what_a_reader_needs(self):
        found = self.read()
        tags = {tag: attributes for tag, attributes, _ in reversed(found.elements)}
        self.assertEqual(tags["html"]["lang"], "en")
        self.assertEqual(found.texts("title")[0], "Sluice training lab")
        metas = [own for tag, own, _ in found.elements if tag == "meta"]
        self.assertIn({"charset": "utf-8"}, metas)
        self.assertIn("width=device-width", next(m for m in metas if m.get("name"))["content"])
        for tag, attributes, _ in found.elements:
            if tag == "th":
                self.assertIn(attributes["scope"], ("row", "col"))
            if tag == "svg":
                self.assertTrue(attributes.get("role") == "img" or "viewbox" in attributes
                                or attributes.get("aria-hidden") == "true")
        images = sum(own.get("role") == "img" for tag, own, _ in found.elements)
        self.assertEqual(len(found.texts("desc")), images)
        self.assertEqual(len(set(ids := [o["id"] for _, o, _ in found.elements if "id" in o])),
                         len(ids))

    def test_command_line_from_elsewhere(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "r.json").write_text(json.dumps(self.results), encoding="utf-8")

        def run(*arguments):
            return subprocess.run([sys.executable, "-I", REPORT, *arguments], cwd=folder, text=True,
                                  capture_output=True, check=False, timeout=60)
        self.assertEqual(run("r.json", "r.html").returncode, 0)
        self.assertEqual((folder / "r.html").read_text(encoding="utf-8"), page.page(self.results))
        self.assertIn("usage:", run("r.json").stderr)
        (folder / "bad.json").write_text("{", encoding="utf-8")
        for name in ("bad.json", "none.json"):
            done = run(name, "x.html")
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^report: {name} -> x.html: .*\n$")
