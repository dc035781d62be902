"""The training lab's parts that need no torch: names, plans, targets, progress, verdicts,
tables."""

import io
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import unittest

from paths import ROOT

import sample_results
from training import cluster, contestants, options, plan, table, tables_in_docs, target
from training.progress import Progress


class Contestants(unittest.TestCase):
    def test_names_mean_what_they_say(self):
        found = contestants.parse("tide:bits=2,down=full+ef@stream")
        self.assertEqual((found.codec, found.feedback, found.carrier, found.kind),
                         ("tide:bits=2,down=full", "ef", "stream", "sluice"))
        plain = contestants.parse("thc")
        self.assertEqual((plain.codec, plain.feedback, plain.carrier), ("thc", "none", "torch"))
        self.assertEqual([contestants.parse(name).kind for name in contestants.NAMED],
                         ["baseline"] * 3)

    def test_bad_names_are_refused_with_what_is_accepted(self):
        for name in ("", "tide@", "tide+", "tide+x", "tide@mpi", "@stream", "+ef",
                     "tide@stream+ef"):
            with self.assertRaises(ValueError, msg=name) as caught:
                contestants.parse(name)
            self.assertIn(f"'{name}'", str(caught.exception))
            self.assertIn("tide:bits=2+ef@stream", str(caught.exception))

    def test_the_reference_comes_first_and_nobody_comes_twice(self):
        self.assertEqual(contestants.in_order(["thc", "ddp-fp32", "thc", "tide"]),
                         ["ddp-fp32", "thc", "tide"])


class Options(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run([sys.executable, "-m", "training.options", *arguments], check=False,
                              capture_output=True, text=True, cwd=ROOT / "bench",
                              env={"PYTHONPATH": f"{ROOT}/bench:{ROOT}/tools",
                                   "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_mistakes_are_one_line_with_the_value_and_what_is_accepted(self):
        for arguments, value, accepted in (
                (["--rate", "3"], "'3'", "gbit"), (["--rate", "fast"], "'fast'", "unlimited"),
                (["--workers", "1"], "'1'", "2 to 16"), (["--workers", "x"], "'x'", "2 to 16"),
                (["--job", "bert"], "'bert'", "gpt, clicks, heads"),
                (["--seeds", "0"], "'0'", "1 to"),
                (["--codecs", "tide@mpi"], "'tide@mpi'", "@stream"),
                (["--steps", "3"], "'3'", "20 to"), (["--fast"], "--fast", "--quick"),
                (["--full", "--rate", "1gbit"], "--rate", "one or the other"),
                (["--quick", "--full"], "--full", "--quick")):
            said = self.refused(*arguments)
            self.assertIn(value, said)
            self.assertIn(accepted, said)

    def test_plans_follow_the_options(self):
        def made(*arguments):
            return options.plan(options.parse(list(arguments)), "raw.json")
        usual = made()
        self.assertEqual((set(usual.jobs), usual.seeds, usual.rates),
                         ({"gpt", "clicks", "heads"}, (1,), ("auto",)))
        self.assertEqual(set(made("--quick").jobs), {"gpt"})
        self.assertEqual(made("--full").seeds, (1, 2, 3))
        for mode in ([], ["--full"]):
            for names in made(*mode).contestants.values():
                self.assertEqual(names[0], "ddp-fp32")
                self.assertLessEqual({"tide:bits=2", "tide:bits=3", "tide:bits=4"}, set(names))
        self.assertLessEqual({"lossless", "tide:bits=2+ef"},
                             set(made("--full").contestants["clicks"]))
        self.assertEqual(set(made("--quick", "--job", "heads").contestants), {"heads"})
        asked = made("--job", "clicks", "--steps", "40", "--rate", "1gbit", "--rate", "unlimited",
                     "--codecs", "thc", "fixed")
        self.assertEqual((asked.jobs, asked.rates, asked.contestants, asked.seconds),
                         ({"clicks": 40}, ("1gbit", "unlimited"),
                          {"clicks": ["ddp-fp32", "thc", "fixed"]}, {}))

    def test_plans_survive_their_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plan.json"
            wanted = options.plan(options.parse([]), "raw.json")
            wanted.write(path)
            self.assertEqual(plan.Plan.read(str(path)), wanted)


class Target(unittest.TestCase):
    LOSSES = [(0, 0.0, 5.0), (10, 4.0, 3.0), (20, 10.0, 4.0), (30, 12.0, 1.0)]

    def test_between_notes_as_on_a_line(self):
        self.assertEqual(target.loss_at(self.LOSSES, 5), 4.0)
        self.assertEqual(target.loss_at(self.LOSSES, 30), 1.0)
        with self.assertRaises(ValueError):
            target.loss_at(self.LOSSES, 31)

    def test_reached_is_the_first_time(self):
        self.assertEqual(target.reached(self.LOSSES, 3.5), (7.5, 3.0))
        self.assertEqual(target.reached(self.LOSSES, 2.5), (25.0, 11.0))
        self.assertEqual(target.reached(self.LOSSES, 9.0), (0.0, 0.0))
        self.assertIsNone(target.reached(self.LOSSES, 0.5))


def events(steps=20):
    yield {"what": "probe", "job": "gpt", "title": "a GPT", "rate": "auto"}
    yield {"what": "job", "job": "gpt", "title": "a GPT", "rate": "80mbit", "why": "", "share": 0.8,
           "contestants": ["ddp-fp32", "thc"]}
    yield {"what": "seed", "seed": 1, "seeds": 1}
    for step in range(5, steps + 1, 5):
        for name in ("ddp-fp32", "thc"):
            yield {"what": "progress", "contestant": name, "step": step, "steps": steps,
                   "loss": 3.25, "seconds": 0.5 * step,
                   "heads": {"left": 3.0, "right": 0.5} if name == "thc" else {}}
    yield {"what": "cut", "steps": 20, "planned": 100, "seconds": 60}
    yield {"what": "trace", "contestant": "ddp-fp32"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressLines(unittest.TestCase):
    def test_a_log_gets_lines_now_and_then(self):
        out = io.StringIO()
        progress = Progress(out)
        for event in events(steps=100):
            progress.take(event)
        self.assertNotIn("\x1b", out.getvalue())
        self.assertEqual(out.getvalue().count("loss 3.2500"), 2 * 4)
        self.assertEqual(out.getvalue().count("loss 3.2500 (left 3.0000, right 0.5000)  "), 4)
        self.assertIn("links of 80mbit; plain DDP spends 80% of a step waiting", out.getvalue())
        self.assertEqual(progress.where, "gpt, trace of ddp-fp32")

    def test_a_terminal_has_one_line_per_contestant_that_is_replaced(self):
        out = Terminal()
        progress = Progress(out)
        for event in events():
            progress.take(event)
        rows, row = {}, 0
        for part in re.split(r"(\x1b\[\d+A|\n)", out.getvalue()):
            if part == "\n":
                row += 1
            elif part.startswith("\x1b["):
                row -= int(part[2:-1])
            elif part:
                rows[row] = part
        shown = [text for text in rows.values() if "loss" in text]
        self.assertEqual(len(shown), 2, rows)
        self.assertTrue(all("20/20" in text for text in shown), shown)


class Verdicts(unittest.TestCase):
    def verdict(self, *lines, ended_by=None):
        with tempfile.TemporaryDirectory() as folder:
            progress = Progress(io.StringIO())
            progress.where = "gpt, seed 1, thc, step 5 of 20"
            log = cluster._Log(pathlib.Path(folder) / "log.txt", progress)
            log.ended_by = ended_by
            for line in lines:
                log.take(line)
            log.close()
            return log.verdict(1)

    def test_the_killed_worker_is_named_and_not_who_missed_it(self):
        text, status = self.verdict(
            "[0] [rank0]: sluice.torch.SluiceError: rank 2 is missing",
            "[0]   exitcode  : 1 (pid: 7)", "[2]   exitcode  : -9 (pid: 9)")
        self.assertIn("worker 2 was ended by SIGKILL (gpt, seed 1, thc, step 5 of 20)", text)
        self.assertEqual(status, 1)

    def test_otherwise_the_first_error_is_told(self):
        text, _ = self.verdict("[1] [rank1]: ValueError: codec 'x' is unknown",
                               "[1]   exitcode  : 1 (pid: 7)", "[0] [rank0]: RuntimeError: gone")
        self.assertIn("rank 1: ValueError: codec 'x' is unknown", text)

    def test_a_signal_to_the_lab_is_told_as_such(self):
        self.assertEqual(self.verdict("[2]   exitcode  : -15 (pid: 9)", ended_by=2),
                         ("ended by SIGINT", 130))


class Tables(unittest.TestCase):
    def setUp(self):
        self.results = sample_results.make()

    def test_the_table_has_a_row_for_everybody_and_says_what_was_not_reached(self):
        job = self.results["jobs"][0]
        text = table.text(job, self.results["network"])
        for configuration in job["configurations"]:
            self.assertIn(configuration["title"], text)
        reached = [c["seeds"][0]["seconds_to_target"] for c in job["configurations"]]
        self.assertEqual(text.count("not reached"), sum(r is None for r in reached))
        self.assertIn(f"{reached[0]:.1f} s", text)

    def test_heads_have_a_column_each(self):
        job = self.results["jobs"][0]
        dense, tide = (job["configurations"][i]["seeds"] for i in (0, 3))
        losses = [[seed["heads"][-1][1] for seed in seeds] for seeds in (dense, tide)]
        more = statistics.median(ours / theirs - 1 for theirs, ours in zip(*losses))
        lines = table.text(job, self.results["network"]).splitlines()
        self.assertRegex(lines[2], r"difference  +left  +right$")
        found = next(line for line in lines if line.startswith("tide:bits=4 "))
        self.assertTrue(found.endswith(f"{statistics.median(losses[1]):.4f}{more:+8.2%}"), found)
        docs = tables_in_docs.training_tables(self.results)
        self.assertIn("| final loss against dense | left against dense | right against dense |",
                      docs)
        self.assertIn(f"| {100 * more:+.2f} % (", docs)
        self.assertEqual(docs.count("left against"), 1)  # The other job has one loss.

    def test_loopback_is_said(self):
        network = {"mode": "loopback", "why": "no root", "workers": 4}
        self.assertIn("Links were NOT limited: no root.",
                      table.text(self.results["jobs"][0], network))

    def test_only_what_is_between_the_marks_is_replaced(self):
        page = ("before\n<!-- written by ./run --full -->\nold\n"
                "<!-- end of what ./run --full wrote -->\nafter\n")
        new = tables_in_docs.replaced(page, "new")
        self.assertEqual(new, page.replace("old", "\nnew"))
        self.assertEqual(tables_in_docs.replaced(new, "new"), new)
        with self.assertRaises(ValueError):
            tables_in_docs.replaced("no marks\n", "new")

    def test_the_tables_go_between_the_marks_of_two_pages(self):
        pages = ("docs/figures.md", "docs/will-it-help-me.md")
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            (copy / "docs").mkdir()
            for page in pages:
                (copy / page).write_bytes((ROOT / page).read_bytes())
            written = tables_in_docs.write(copy, self.results, self.results)
            self.assertEqual(written, [copy / page for page in pages])
            texts = [path.read_text(encoding="utf-8") for path in written]
        self.assertIn(tables_in_docs.training_tables(self.results), texts[0])
        self.assertIn(tables_in_docs.rate_tables(self.results), texts[1])
        self.assertIn("## Aggregators", texts[0])  # What people wrote stays.

    def test_tables_of_rates_have_a_column_for_each(self):
        jobs = []
        for rate in ("100mbit", None):
            job = json.loads(json.dumps(self.results["jobs"][0]))
            jobs.append(job | {"rate": rate})
        text = tables_in_docs.rate_tables(self.results | {"jobs": jobs})
        self.assertIn("| milliseconds of a step | 100mbit | unlimited |", text)
        steps = jobs[0]["configurations"][0]["seeds"][0]["step_seconds"]
        self.assertIn(f"{1e3 * sum(steps) / len(steps):.0f}", text)


if __name__ == "__main__":
    unittest.main()
