"""Ranks that die, fail, stop or never come: the others say who, where and when, and do not hang.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_faults.py

That nobody hangs is seen by the launcher, which gives up after LIMIT seconds.
"""

import concurrent.futures
import re
import unittest

from fault_cases import STEP, VICTIM
from launched_ranks import launch

LIMIT = 120.0
LAUNCHES_AT_ONCE = 4  # they wait more than they work

# Case, ranks, the victim, how it ends.
KILLED, FAILED, STOPPED = "died of signal 9", "the disk is full", "was killed by the launcher,"
PLAN = {
    "killed_between_buckets": (3, VICTIM, KILLED),
    "killed_with_its_aggregator": (3, VICTIM, KILLED),
    "rank_0_killed_between_buckets": (3, 0, KILLED),
    "rank_0_killed_with_the_store": (3, 0, KILLED),
    "rank_0_killed_with_its_aggregator": (3, 0, KILLED),
    "killed_before_the_first_step": (3, 2, KILLED),
    "rank_0_killed_before_the_first_step_of_stream": (3, 0, KILLED),
    "rank_0_killed_between_steps": (3, 0, KILLED),
    "killed_between_steps_of_stream": (3, 2, KILLED),
    "killed_while_attaching": (3, VICTIM, KILLED),
    "killed_while_groups_are_made": (3, VICTIM, KILLED),
    "killed_while_joining": (3, VICTIM, KILLED),
    "killed_in_a_ring": (4, VICTIM, KILLED),
    "killed_before_results_are_compared": (3, VICTIM, KILLED),
    "killed_while_rows_are_told": (3, VICTIM, KILLED),
    "raises_between_steps": (3, VICTIM, FAILED),
    "raises_between_steps_of_stream": (3, VICTIM, FAILED),
    "fails_on_a_lane": (3, VICTIM, FAILED),
    "fails_on_a_lane_of_stream": (3, VICTIM, FAILED),
    "fails_in_a_callback": (3, VICTIM, FAILED),
    "stops_between_buckets": (3, VICTIM, STOPPED),
    "stops_between_buckets_of_stream": (3, VICTIM, STOPPED),
    "never_attaches": (3, VICTIM, STOPPED),
    "plain_pair_of_which_one_rank_has_no_hook": (3, VICTIM, STOPPED),
}


class OnVictims:
    """What is checked after faults, of a plan and an environment."""

    plan, env = PLAN, {}

    @classmethod
    def setUpClass(cls):
        with concurrent.futures.ThreadPoolExecutor(LAUNCHES_AT_ONCE) as pool:
            futures = {}
            for name, (size, victim, how) in cls.plan.items():
                futures[name] = pool.submit(launch, size, [f"fault_cases.{name}"], timeout=LIMIT,
                                            env=cls.env,
                                            expendable=[victim] if how is STOPPED else [])
            cls.reports = {name: future.result()[f"fault_cases.{name}"]
                           for name, future in futures.items()}

    def survivors(self, name):
        """(rank, text) of all ranks but the victim, which ended as planned."""
        size, victim, how = self.plan[name]
        reports = self.reports[name]
        self.assertEqual(len(reports), size)
        self.assertIn(how, reports[victim].text)
        for rank, report in enumerate(reports):
            if rank != victim:
                self.assertEqual(report.kind, "ok", f"rank {rank}: {report.text}")
                kind, text = report.value
                self.assertIn(kind, ("RuntimeError", "SluiceError"), text)
                self.assertIn("SluiceError: ", text, f"rank {rank}")
                self.assertNotRegex(text, "frame #|Exception raised from|TCPStore")
                yield rank, text

    def check_missing(self, name, *patterns, where=f"step {STEP}"):
        size, victim, how = self.plan[name]
        if how is KILLED:
            patterns += ("its process has ended",)
        for rank, text in self.survivors(name):
            for pattern in (where, f"rank {rank} of {size}", *patterns):
                self.assertRegex(text, pattern, f"rank {rank}")
            self.assertEqual(set(re.findall(r"missing: (ranks? [0-9, ]*[0-9])", text)),
                             {f"rank {victim}"}, f"rank {rank} says {text}")
            self.assertLess(len(text), 4000, f"rank {rank} says {text}")


class Faults(OnVictims, unittest.TestCase):
    def test_a_rank_that_is_killed_is_named_with_operation_bucket_and_step(self):
        self.check_missing("killed_between_buckets", "bucket [01]", "all-(to-all|gather|reduce)")

    def test_a_rank_that_is_killed_and_its_aggregator_with_it_is_named(self):
        self.check_missing("killed_with_its_aggregator", "bucket [01]")

    def test_rank_0_that_is_killed_is_named_too(self):
        self.check_missing("rank_0_killed_between_buckets", "bucket [01]",
                           "all-(to-all|gather|reduce)")

    def test_rank_0_that_is_killed_and_the_store_with_it_is_named_and_nobody_else(self):
        self.check_missing("rank_0_killed_with_the_store", "bucket [01]",
                           "all-(to-all|gather|reduce)")

    def test_rank_0_that_is_killed_and_its_aggregator_with_it_is_named(self):
        self.check_missing("rank_0_killed_with_its_aggregator", "bucket [01]")

    def test_a_rank_that_is_killed_before_the_first_step_is_named(self):
        for name in ("killed_before_the_first_step",
                     "rank_0_killed_before_the_first_step_of_stream"):
            with self.subTest(name):
                self.check_missing(name, where="(step 0|attach)")

    def test_a_rank_that_is_killed_between_steps_is_named_when_the_next_one_begins(self):
        for name in ("rank_0_killed_between_steps", "killed_between_steps_of_stream"):
            with self.subTest(name):
                self.check_missing(name, f"SluiceError: step {STEP}, bucket 0, rank")

    def test_a_rank_that_is_killed_while_attaching_is_named(self):
        for name, where in (("killed_while_attaching", "attach"),
                            ("killed_while_groups_are_made", "attach, making process groups"),
                            ("killed_while_joining", "attach, joining the aggregators")):
            with self.subTest(name):
                self.check_missing(name, where=where)

    def test_only_the_killed_rank_is_named_where_others_wait_for_somebody_else(self):
        self.check_missing("killed_in_a_ring", "bucket [01]", "all-gather")

    def test_a_rank_that_is_killed_before_results_are_compared_is_named(self):
        self.check_missing("killed_before_results_are_compared")

    def test_a_rank_that_is_killed_while_rows_are_told_is_named(self):
        self.check_missing("killed_while_rows_are_told", "bucket 0, rows, all-gather of sizes")

    def test_a_rank_that_raises_is_named_with_bucket_and_step(self):
        for name in ("raises_between_steps", "raises_between_steps_of_stream"):
            with self.subTest(name):
                self.check_missing(name, r"bucket \d", f"left after {STEP} steps")

    def test_a_rank_that_fails_on_a_lane_is_quoted_with_its_first_word(self):
        for name in ("fails_on_a_lane", "fails_on_a_lane_of_stream", "fails_in_a_callback"):
            for rank, text in self.survivors(name):
                self.assertRegex(text, f"rank {VICTIM} failed at .*OSError: the disk is full",
                                 f"{name}, rank {rank}")
                self.assertNotIn("missing", text, f"{name}, rank {rank}")

    def test_a_rank_that_stops_is_named_with_bucket_and_step_and_what_gives_it_longer(self):
        self.check_missing("stops_between_buckets", "bucket 1", "all-(to-all|gather|reduce)",
                           "not dead; the time-out is 4 s; timeout= or SLUICE_TIMEOUT")
        self.check_missing("stops_between_buckets_of_stream", "bucket 1",
                           "not dead; the time-out is 4 s; timeout= or SLUICE_TIMEOUT")

    def check_never_came(self, name):
        for rank, text in self.survivors(name):
            self.assertRegex(text, f"rank {rank} of 3 attached, but rank {VICTIM} did not within 4")

    def test_a_rank_that_never_attaches_is_named(self):
        self.check_never_came("never_attaches")

    def test_a_rank_without_the_hook_is_named(self):
        self.check_never_came("plain_pair_of_which_one_rank_has_no_hook")


if __name__ == "__main__":
    unittest.main()
