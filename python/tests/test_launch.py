"""The launcher of the other tests: what it says of ranks that raise, skip, die or wait.

    PYTHONPATH=python python python/tests/test_launch.py
"""

import unittest

from launched_ranks import launch


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names = ("ranks_add_up", "rank_1_raises", "nobody_takes_part", "cleans_up", "rank_1_dies",
                 "ranks_add_up_again", "rank_1_meets_an_illegal_instruction", "all_are_killed",
                 "ranks_add_up_at_last")
        cls.reports = launch(2, [f"launch_cases.{name}" for name in names])
        cls.waits = launch(2, ["launch_cases.rank_1_waits"], expendable=[1])

    def kinds(self, name):
        return [report.kind for report in self.reports[f"launch_cases.{name}"]]

    def test_values_come_back_from_every_rank(self):
        reports = self.reports["launch_cases.ranks_add_up"]
        self.assertEqual([report.value for report in reports], [[3, "0", "2"], [3, "1", "2"]])

    def test_a_case_that_raises_is_reported_and_the_next_one_runs(self):
        self.assertEqual(self.kinds("rank_1_raises"), ["ok", "failed"])
        text = self.reports["launch_cases.rank_1_raises"][1].text
        self.assertIn("ValueError: as planned", text)
        self.assertEqual(self.kinds("nobody_takes_part"), ["skip", "skip"])
        self.assertEqual(self.reports["launch_cases.nobody_takes_part"][0].text, "for a reason")

    def test_a_failure_of_cleaning_up_is_one_of_the_case(self):
        self.assertEqual(self.kinds("cleans_up"), ["failed", "failed"])
        self.assertIn("IndexError", self.reports["launch_cases.cleans_up"][0].text)

    def test_a_rank_that_dies_is_named(self):
        self.assertEqual(self.kinds("rank_1_dies"), ["ok", "lost"])
        self.assertIn("rank 1 did not finish launch_cases.rank_1_dies: it exited with 5",
                      self.reports["launch_cases.rank_1_dies"][1].text)
        name = "rank_1_meets_an_illegal_instruction"
        self.assertEqual(self.kinds(name), ["failed", "lost"])
        self.assertIn("died of signal 4,", self.reports[f"launch_cases.{name}"][1].text)
        self.assertEqual(self.kinds("all_are_killed"), ["lost", "lost"])
        for report in self.reports["launch_cases.all_are_killed"]:
            self.assertIn("died of signal 9,", report.text)

    def test_a_death_fails_one_case_and_new_ranks_run_those_after_it(self):
        for name in ("ranks_add_up_again", "ranks_add_up_at_last"):
            reports = self.reports[f"launch_cases.{name}"]
            self.assertEqual([(report.kind, report.value) for report in reports],
                             [("ok", [3, "0", "2"]), ("ok", [3, "1", "2"])], reports)

    def test_a_death_between_cases_fails_the_next_case_alone(self):
        names = [f"launch_cases.{name}" for name in
                 ("rank_1_dies_after_it", "ranks_add_up", "ranks_add_up_again")]
        kinds = [[report.kind for report in reports] for reports in launch(2, names).values()]
        self.assertEqual(kinds, [["ok", "ok"], ["lost", "lost"], ["ok", "ok"]])

    def test_who_is_late_is_killed_and_what_comes_after_is_not_run(self):
        names = ["launch_cases.rank_1_waits", "launch_cases.ranks_add_up"]
        waited, after = launch(2, names, timeout=2.0).values()
        for report in (waited[1], *after):
            self.assertEqual(report.kind, "lost")
            self.assertIn("was killed by the launcher for being late", report.text)

    def test_an_expendable_rank_is_ended_when_the_others_are_done(self):
        first, second = self.waits["launch_cases.rank_1_waits"]
        self.assertEqual((first.kind, second.kind), ("ok", "lost"))
        self.assertIn("was killed by the launcher,", second.text)


if __name__ == "__main__":
    unittest.main()
