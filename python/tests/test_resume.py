"""Checkpoints: a job that is stopped and started again ends with the bits of one that was not.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_resume.py
"""

import tempfile
import unittest

from launched_ranks import launch


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-resume-")
        cls.addClassCleanup(folder.cleanup)
        cls.reports = {}
        for size, names in ((2, ("whole_and_half", "save_for_another_world")),
                            (4, ("save_for_another_world",)),
                            (2, ("other_half", "half_without_sluice_state", "from_4_to_2",
                                 "from_the_first_edition", "from_the_second_edition")),
                            (3, ("from_2_to_3",))):
            cases = [f"resume_cases.{name}" for name in names]
            done = launch(size, cases, env={"RESUME_FOLDER": folder.name})
            cls.reports.update({(size, name): done[f"resume_cases.{name}"] for name in names})

    def value(self, size, name):
        """What the ranks returned, which must be the same on all."""
        for rank, report in enumerate(self.reports[size, name]):
            if report.kind != "ok":
                self.fail(f"rank {rank} of {size}, {name}, {report.kind}:\n{report.text}")
        values = [report.value for report in self.reports[size, name]]
        self.assertEqual(values, [values[0]] * size)
        return values[0]

    def check_resumed(self, setup):
        whole = self.value(2, "whole_and_half")[setup]
        self.assertEqual(self.value(2, "other_half")[setup], whole)
        without = self.value(2, "half_without_sluice_state")[setup]
        self.assertNotEqual(without, whole, "the state made no difference: the test shows nothing")

    def test_with_feedback_the_bits_are_those_of_a_job_that_was_not_stopped(self):
        self.check_resumed("ef")

    def test_with_momentum_in_the_feedback_too(self):
        self.check_resumed("dgc")

    def test_with_scales_of_the_step_before_too(self):
        self.check_resumed("previous")

    def test_with_scales_of_the_step_before_and_no_feedback_too(self):
        self.check_resumed("forgetful")

    def test_from_4_ranks_to_2_the_sum_of_residuals_is_kept(self):
        self.value(4, "save_for_another_world")
        self.value(2, "from_4_to_2")

    def test_from_2_ranks_to_3_the_sum_of_residuals_is_kept(self):
        self.value(2, "save_for_another_world")
        self.value(3, "from_2_to_3")

    def test_a_state_of_tides_first_edition_goes_on(self):
        self.value(2, "from_the_first_edition")

    def test_a_state_with_tensors_by_name_goes_on(self):
        self.value(2, "from_the_second_edition")


if __name__ == "__main__":
    unittest.main()
