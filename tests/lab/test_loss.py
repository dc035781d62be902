"""tools/lab --loss: how much is lost, where, of what, and that it is counted."""

import os
import re
import shutil
import unittest

from support import (ECHO, OPEN, SEND_5_MB, LabTest, binomial_range, keep_datagrams_in_order,
                     needs_namespaces, python, without_sys_admin)

needs_nft = unittest.skipUnless(shutil.which("nft"), "no nft in PATH")
ROUNDS, ROUND_COUNT = 40, 50  # So few at a time that no socket's buffer is ever full.

setUpModule = keep_datagrams_in_order

# Rounds of datagrams, each ended by a question that is asked until it is answered; the network
# keeps order, so that what of the round is to come has come before the answer.
SURVEY = OPEN + f"""
back = asked = 0
s.settimeout(0.05)
for number in range({ROUNDS}):
    for _ in range({ROUND_COUNT}):
        s.sendto(b"datum", aggregators[0])
    question, answer = b"question %d" % number, b""
    while answer != question:
        s.sendto(question, aggregators[0])
        asked += 1
        try:
            while answer != question:
                answer = s.recv(100)
                back += answer == b"datum"
        except TimeoutError:
            pass
print("back", back, "asked", asked)
"""


class BinomialRange(unittest.TestCase):
    def test_small_cases(self):
        self.assertEqual(binomial_range(2, 0.5, tail=0.2), (0, 2))
        self.assertEqual(binomial_range(2, 0.5, tail=0.3), (1, 1))
        self.assertEqual(binomial_range(7, 0), (0, 0))
        self.assertEqual(binomial_range(7, 1), (7, 7))

    def test_is_about_six_standard_deviations_wide_for_many(self):
        low, high = binomial_range(10**4, 0.5)
        self.assertTrue(4680 < low < 4720 and 5280 < high < 5320, (low, high))


class LossTest(LabTest):
    def survey(self, *options):
        """(datagrams that came back, questions asked) of rank 0."""
        done = self.lab("--workers", 1, "--aggregators", 1, "--aggregator-command",
                        python(ECHO), *options, code=SURVEY)
        return tuple(map(int, re.search(r"back (\d+) asked (\d+)", done.stdout).groups()))

    def check_likely(self, found, count, chance):
        low, high = binomial_range(count, chance)
        self.assertTrue(low <= found <= high, f"{found} is not in {low} to {high}")


@needs_namespaces
@needs_nft
class InNamespaces(LossTest):
    def test_each_direction_of_each_link_loses_its_share(self):
        for percent in (1, 10):
            with self.subTest(percent):
                back, asked = self.survey("--loss", percent, "--rate", "unlimited")
                kept = 1 - percent / 100
                self.check_likely(back, ROUNDS * ROUND_COUNT, kept**4)
                result = self.result()
                worker, aggregator = result["workers"][0], result["aggregators"][0]
                self.assertEqual((result["loss"], result["loss_protocol"]), (percent, "udp"))
                count = ROUNDS * ROUND_COUNT + asked
                for lost in (worker["lost_sent"], aggregator["lost_received"],
                             aggregator["lost_sent"], worker["lost_received"]):
                    self.check_likely(lost, count, 1 - kept)
                    count -= lost

    def test_lost_datagrams_are_counted_at_their_link_and_tcp_is_spared(self):
        udp = ("\nimport socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
               "for _ in range(7):\n    s.sendto(b'?', (os.environ['MASTER_ADDR'], 9))\n")
        done = self.lab("--workers", 2, "--loss", 100, code=SEND_5_MB + udp)
        self.assertIn("[0] got 5000000 from 10.77.0.2\n", done.stdout)
        receiver, sender = self.result()["workers"]
        self.assertEqual((sender["lost_sent"], sender["lost_received"]), (7, 0))
        self.assertEqual((receiver["lost_sent"], receiver["lost_received"]), (0, 0))
        self.assertRegex(done.stderr,
                         r"lab: rank 1, .*lost sent 7, lost received 0, cpu \S+ s, exit 0\n")

    def test_all_protocols(self):
        # Where TCP passes the answer is awaited, a refusal; where all is lost none can come.
        code = ("import os, socket, sys\nif os.environ['RANK'] == '1':\n"
                "    s = socket.socket()\n    s.settimeout(float(sys.argv[1]))\n"
                "    try:\n        s.connect((os.environ['MASTER_ADDR'], 9))\n"
                "    except TimeoutError:\n        print('no answer')\n")
        for protocol, lost, wait_s in (("udp", False, 30), ("all", True, 1)):
            done = self.lab("--workers", 2, "--loss", 100, "--loss-protocol", protocol,
                            code=code, arguments=[wait_s], status=0 if lost else 1)
            self.assertEqual("[1] no answer\n" in done.stdout, lost)
            self.assertEqual(self.result()["workers"][1]["lost_sent"] > 0, lost)

    def test_a_train_of_datagrams_is_lost_one_by_one(self):
        # UDP_SEGMENT: one call, one packet for the kernel, ten datagrams on a wire.
        code = ("import os, socket, struct\nif os.environ['RANK'] == '1':\n"
                "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "    s.setsockopt(socket.IPPROTO_UDP, 103, 1000)\n"
                "    s.sendto(bytes(10000), (os.environ['MASTER_ADDR'], 9))\n")
        for rate in ("100mbit", "1gbit", "unlimited"):
            with self.subTest(rate):
                self.lab("--workers", 2, "--loss", 100, "--rate", rate, code=code)
                self.assertEqual(self.result()["workers"][1]["lost_sent"], 10)

    def test_none(self):
        self.assertEqual(self.survey("--loss", 0)[0], ROUNDS * ROUND_COUNT)
        self.assertNotIn("lost_sent", self.result()["workers"][0])

    def test_refused_without_nft(self):
        folder = self.folder / "bin"
        folder.mkdir()
        self.env = {"PATH": str(folder)}
        done = self.lab("--loss", 1, status=2)
        self.assertIn("lab: argument --loss: no nft in PATH; accepted where nftables is installed",
                      done.stderr)


@needs_nft
class OnLoopback(LossTest):
    """There the relay loses, as the two links of a path would."""

    preexec = staticmethod(without_sys_admin) if os.geteuid() == 0 else None

    def test_the_relay_loses_in_the_links_place(self):
        back, asked = self.survey("--loss", 10)
        relay = self.result()["relays"][0]
        self.check_likely(back, ROUNDS * ROUND_COUNT, 0.9**4)
        there, home = relay["to_aggregator"], relay["to_workers"]
        # Questions that were asked again may be under way when all is answered.
        self.assertIn(there["received"], range(ROUNDS * (ROUND_COUNT + 1),
                                               ROUNDS * ROUND_COUNT + asked + 1))
        self.check_likely(there["lost"], there["received"], 1 - 0.9**2)
        self.assertLessEqual(home["received"], there["received"] - there["lost"])
        self.check_likely(home["lost"], home["received"], 1 - 0.9**2)

    def test_what_no_relay_sees_cannot_be_lost(self):
        for options in (("--loss", 1), ("--loss", 1, "--loss-protocol", "all", "--aggregators", 1,
                                        "--aggregator-command", python(ECHO))):
            done = self.lab(*options, code="print('ran')", status=3)
            self.assertIn("and --loss was given: without namespaces only the aggregators' UDP",
                          done.stderr)
            self.assertNotIn("ran", done.stdout)


if __name__ == "__main__":
    unittest.main()
