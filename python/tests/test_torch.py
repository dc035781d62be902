"""The DDP hook on 2 and 3 ranks: a test for every case and number of ranks.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_torch.py -v

All cases of a number of ranks run in one launch.
`python python/tests/launched_ranks.py 2 MODULE.CASE`
runs a single one.
"""

import unittest

import choice_cases
import collectives_cases
import ddp_cases
import ddp_kit as kit
import error_cases
import handle_cases
import life_cases
import shape_cases
import sparse_cases
import stream_cases
import value_cases
import watch_cases
from launched_ranks import launch

MODULES = (collectives_cases, value_cases, handle_cases, choice_cases, error_cases, ddp_cases,
           stream_cases, sparse_cases, watch_cases, shape_cases, life_cases)


class OnRanks:
    """A test class of so many ranks; the cases become its methods below."""

    size = 0

    @classmethod
    def setUpClass(cls):
        cls.reports = launch(cls.size, cls.cases, timeout=600)

    def check(self, name):
        reports = self.reports[name]
        if all(report.kind == "skip" for report in reports):
            self.skipTest(reports[0].text)
        bad = {}
        for rank, report in enumerate(reports):
            if report.kind != "ok":
                bad.setdefault(f"{report.kind}:\n{report.text}", []).append(str(rank))
        if bad:
            self.fail("\n".join(f"rank {', '.join(ranks)}, {text}" for text, ranks in bad.items()))
        values = [report.value for report in reports]
        self.assertTrue(all(value == values[0] for value in values),
                        f"ranks returned different values: {values}")


def _test_class(size):
    cases = [name for module in MODULES for name in kit.cases_of(module, size)]

    def method(name):
        return lambda self: self.check(name)

    members = {"size": size, "cases": cases}
    for name in cases:
        members["test_" + name.replace("_cases.", "_")] = method(name)
    return type(f"On{size}Ranks", (OnRanks, unittest.TestCase), members)


On2Ranks, On3Ranks = _test_class(2), _test_class(3)

if __name__ == "__main__":
    unittest.main()
