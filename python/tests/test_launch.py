"""The launcher of the other tests: what it says of ranks that raise, skip, die or wait.

    PYTHONPATH=python python python/tests/test_launch.py
"""

import unittest

from launch import launch


class Launch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        names = ("ranks_add_up", "rank_1_raises", "nobody_takes_part", "cleans_up", "rank_1_dies",
                 "never_runs")
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

    def test_a_rank_that_dies_is_named_and_the_cases_after_it_are_not_run(self):
        self.assertEqual(self.kinds("rank_1_dies"), ["ok", "lost"])
        self.assertIn("rank 1 did not finish launch_cases.rank_1_dies: it exited with 5",
                      self.reports["launch_cases.rank_1_dies"][1].text)
        first, second = self.reports["launch_cases.never_runs"]
        self.assertEqual((first.kind, second.kind), ("failed", "lost"))
        self.assertIn("not run: rank 1 did not finish launch_cases.rank_1_dies", first.text)

    def test_an_expendable_rank_is_ended_when_the_others_are_done(self):
        first, second = self.waits["launch_cases.rank_1_waits"]
        self.assertEqual((first.kind, second.kind), ("ok", "lost"))
        self.assertIn("was killed by the launcher,", second.text)


if __name__ == "__main__":
    unittest.main()
