"""Gradients that stay on a device, on 2 and 3 ranks and an emulated device.

    SLUICE_LIBRARY=build/release/libsluice.so PYTHONPATH=python python python/tests/test_device.py

tests/device has those that need a GPU.
"""

import unittest

import ddp_kit as kit
import device_cases
from fault_cases import VICTIM
from launched_ranks import launch
from test_faults import FAILED, KILLED, STOPPED, OnVictims
from test_torch import OnRanks

EMULATED = {"SLUICE_CUDA_LIBRARY": "emulated"}
CARRIED = {**EMULATED, "SLUICE_EMULATED_CARRIES": "1"}


class OnEmulatedDevice(OnRanks):
    @classmethod
    def setUpClass(cls):
        cls.reports = launch(cls.size, cls.cases, env=EMULATED, timeout=600)


def _test_class(size):
    cases = kit.cases_of(device_cases, size)

    def method(name):
        return lambda self: self.check(name)

    members = {"size": size, "cases": cases}
    for name in cases:
        members["test_" + name.replace("_cases.", "_")] = method(name)
    return type(f"On{size}Devices", (OnEmulatedDevice, unittest.TestCase), members)


On2Devices, On3Devices = _test_class(2), _test_class(3)


class FaultsFromDeviceToDevice(OnVictims, unittest.TestCase):
    """One thread serves all tracks over one process group, as over NCCL."""

    env = CARRIED
    plan = {
        "killed_between_buckets": (3, VICTIM, KILLED),
        "rank_0_killed_between_buckets": (3, 0, KILLED),
        "killed_in_a_ring": (4, VICTIM, KILLED),
        "killed_while_a_device_waits": (3, VICTIM, KILLED),
        "killed_before_results_are_compared": (3, VICTIM, KILLED),
        "stops_between_buckets": (3, VICTIM, STOPPED),
        "fails_in_a_callback": (3, VICTIM, FAILED),
        "fails_on_a_lane": (3, VICTIM, FAILED),
    }

    def test_a_rank_that_is_killed_is_named(self):
        for name in ("killed_between_buckets", "rank_0_killed_between_buckets", "killed_in_a_ring",
                     "killed_while_a_device_waits", "killed_before_results_are_compared"):
            with self.subTest(name):
                self.check_missing(name)

    def test_a_rank_that_stops_is_named_with_bucket_and_step(self):
        self.check_missing("stops_between_buckets", "bucket", "not dead; the time-out is 4 s")

    def test_a_rank_that_fails_is_quoted(self):
        for name in ("fails_in_a_callback", "fails_on_a_lane"):
            for rank, text in self.survivors(name):
                self.assertRegex(text, f"rank {VICTIM} failed at .*OSError: the disk is full",
                                 f"{name}, rank {rank}")


class FaultsThroughPinnedMemory(OnVictims, unittest.TestCase):
    env = EMULATED
    plan = {"killed_between_buckets": (3, VICTIM, KILLED),
            "killed_while_a_device_waits": (3, VICTIM, KILLED)}

    def test_a_rank_that_is_killed_is_named(self):
        for name in self.plan:
            with self.subTest(name):
                self.check_missing(name)


if __name__ == "__main__":
    unittest.main()
