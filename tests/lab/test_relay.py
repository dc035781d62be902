"""The relay in the aggregators' path: its choices, its order, its counts, its place in a lab."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import unittest

from support import (ECHO, LAB, LIMIT_S, OPEN, LabTest, binomial_range, keep_datagrams_in_order,
                     needs_namespaces, python, without_sys_admin)

sys.dont_write_bytecode = True
sys.path.insert(0, str(LAB.parent))
from lab_parts import relay  # noqa: E402

COUNT = 200  # Small datagrams that a socket's buffer holds at once.

setUpModule = keep_datagrams_in_order


def settings(**given):
    return relay.Settings(listen_fd=-1, target=("", 0), **given)


def lane(given, key="to aggregator/127.0.0.1/0"):
    """(lane, what it passes on, counts)"""
    passed, counts = [], relay.Counts()
    return relay.Lane(given, key, passed.append, counts), passed, counts


def through(given, count, key="to aggregator/127.0.0.1/0"):
    """Numbers through a lane, no time passing: (what came out, what is still held, counts)."""
    one, passed, counts = lane(given, key)
    for number in range(count):
        one.accept(number, now=0.0)
    return passed, [held.data for held in one.held], counts


class Choices(unittest.TestCase):
    """Without sockets and without time."""

    mixed = {"loss": 0.1, "duplicate": 0.2, "reorder": 0.3}

    def test_nothing_asked_nothing_done(self):
        self.assertEqual(through(settings(), 1000)[:2], (list(range(1000)), []))

    def test_same_seed_same_choices(self):
        first = through(settings(seed=7, **self.mixed), 1000)
        self.assertEqual(first, through(settings(seed=7, **self.mixed), 1000))
        others = [through(settings(seed=8, **self.mixed), 1000),
                  through(settings(seed=7, index=1, **self.mixed), 1000),
                  through(settings(seed=7, **self.mixed), 1000, "to worker/127.0.0.1/0"),
                  through(settings(seed=7, **self.mixed), 1000, "to aggregator/127.0.0.1/1")]
        for other in others:
            self.assertNotEqual(first, other)

    def test_one_option_does_not_change_the_choices_of_another(self):
        def lost(**given):
            one = lane(settings(**given))[0]
            return [one.fate()[0] for _ in range(1000)]
        self.assertEqual(lost(loss=0.1), lost(**self.mixed))

    def test_shares_are_as_asked(self):
        count = 10000
        _, _, counts = through(settings(**self.mixed), count)
        kept = count - counts.lost
        for found, of, chance in ((counts.lost, count, 0.1), (counts.duplicated, kept, 0.2),
                                  (counts.held, kept, 0.3)):
            low, high = binomial_range(of, chance)
            self.assertTrue(low <= found <= high, f"{found} is not in {low} to {high}")

    def test_nothing_is_invented_and_nothing_vanishes(self):
        passed, left, counts = through(settings(**self.mixed), 1000)
        self.assertEqual(len(passed) + len(left),
                         counts.received - counts.lost + counts.duplicated)
        self.assertEqual(len(set(passed + left)), counts.received - counts.lost)
        self.assertNotEqual(passed, sorted(passed))

    def test_one_held_back_is_overtaken_by_at_most_eight(self):
        passed, left, counts = through(settings(reorder=0.2), 1000)
        places = {number: place for place, number in enumerate(passed)}
        overtakers = [sum(1 for other in range(number + 1, number + 50)
                          if places.get(other, 1000) < place)
                      for number, place in places.items()]
        self.assertEqual(max(overtakers), relay.GAP_MAX)
        self.assertLessEqual(len(left), relay.GAP_MAX)
        # One held back is not overtaken where all of those behind it are held back too.
        self.assertGreater(sum(1 for n in overtakers if n), counts.held / 2)

    def test_all_and_none_at_the_limits(self):
        self.assertEqual(through(settings(loss=1.0), 100)[0], [])
        passed, left, counts = through(settings(duplicate=1.0), 100)
        self.assertEqual(sorted(passed + left), sorted(2 * list(range(100))))
        self.assertEqual(counts.duplicated, 100)
        self.assertEqual(through(settings(reorder=1.0), 100)[2].held, 100)

    def test_time_lets_go_what_nothing_overtakes(self):
        one, passed, counts = lane(settings(reorder=1.0, hold_s=2.0))
        self.assertTrue(one.accept("a", now=10.0))
        one.expire(now=11.9)
        self.assertEqual((passed, counts.expired), ([], 0))
        one.expire(now=12.0)
        self.assertEqual((passed, counts.expired, one.held), (["a"], 1, []))


def udp():
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(LIMIT_S)
    return sock


class Process(unittest.TestCase):
    """The relay alone, between sockets of this test; nothing held is let go by time."""

    def setUp(self):
        self.door, self.aggregator, self.worker = udp(), udp(), udp()
        self.process = None
        for sock in (self.door, self.aggregator, self.worker):
            self.addCleanup(sock.close)

    def start(self, **given):
        self.settings = relay.Settings(self.door.fileno(), self.aggregator.getsockname(),
                                       **{"hold_s": 1e6} | given)
        self.process = subprocess.Popen(
            [sys.executable, "-B", relay.__file__, json.dumps(dataclasses.asdict(self.settings))],
            pass_fds=[self.door.fileno()], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        for clean_up in (self.process.wait, self.process.stdout.close, self.process.stderr.close,
                         self.process.kill):
            self.addCleanup(clean_up)  # In reverse.
        self.assertEqual(self.process.stderr.readline(), relay.READY + "\n")

    def finish(self):
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=LIMIT_S)
        self.assertEqual((self.process.returncode, errors), (0, ""))
        counts = json.loads(output)
        for way in (counts["to_aggregator"], counts["to_workers"]):
            self.assertEqual(way["received"] - way["lost"] + way["duplicated"],
                             way["sent"] + way["undelivered"] + way["left"])
            self.assertEqual(way["overflowed"], 0)
        return counts

    def send(self, count=COUNT):
        for number in range(count):
            self.worker.sendto(b"%d" % number, self.door.getsockname())

    def test_order_is_the_one_that_was_decided(self):
        self.start(seed=3, loss=0.1, duplicate=0.2, reorder=0.3)
        self.send()
        expected, left, counts = through(self.settings, COUNT)
        found, sources = [], set()
        for _ in expected:
            data, source = self.aggregator.recvfrom(100)
            found.append(int(data))
            sources.add(source)
        self.assertEqual(found, expected)
        self.assertEqual(len(sources), 1)
        for number in range(COUNT):
            self.aggregator.sendto(b"%d" % number, *sources)
        expected, left_here, counts_here = through(self.settings, COUNT, "to worker/127.0.0.1/0")
        for number in expected:
            data, source = self.worker.recvfrom(100)
            self.assertEqual((int(data), source), (number, self.door.getsockname()))
        told = self.finish()
        for way, decided, kept in (("to_aggregator", counts, left),
                                   ("to_workers", counts_here, left_here)):
            for key in ("received", "lost", "duplicated", "held"):
                self.assertEqual(told[way][key], getattr(decided, key), f"{way} {key}")
            self.assertEqual(told[way]["left"], len(kept))

    def test_each_worker_has_an_address_of_its_own_and_gets_its_own_answers(self):
        self.start()
        workers = [udp() for _ in range(5)]
        for index, worker in enumerate(2 * workers):
            self.addCleanup(worker.close)
            worker.sendto(b"%d" % (index % 5), self.door.getsockname())
        sources = {}
        for _ in range(10):
            data, source = self.aggregator.recvfrom(100)
            sources.setdefault(data, set()).add(source)
            self.aggregator.sendto(b"for " + data, source)
        self.assertEqual([len(found) for found in sources.values()], [1] * 5)
        self.assertEqual(len(set.union(*sources.values())), 5)
        for index, worker in enumerate(2 * workers):
            self.assertEqual(worker.recv(100), b"for %d" % (index % 5))
        self.assertEqual(self.finish()["flows"], 5)

    def test_delay_keeps_order_and_loses_nothing(self):
        self.start(delay_s=0.02)
        self.send()
        self.assertEqual([int(self.aggregator.recv(100)) for _ in range(COUNT)],
                         list(range(COUNT)))
        self.assertEqual(self.finish()["to_aggregator"]["sent"], COUNT)

    def test_what_is_delayed_at_the_end_is_counted(self):
        self.start(delay_s=1e6)
        self.send(10)
        told = self.finish()["to_aggregator"]  # It may not have received all of them by then.
        self.assertEqual((told["sent"], told["left"]), (0, told["received"]))

    def test_hold_ends_by_time(self):
        self.start(reorder=1.0, hold_s=0.001)
        self.send(1)
        self.assertEqual(self.aggregator.recv(100), b"0")
        self.assertEqual(self.finish()["to_aggregator"]["expired"], 1)

    def test_largest_and_empty_datagrams(self):
        self.start()
        for data in (b"", bytes(65507)):
            self.worker.sendto(data, self.door.getsockname())
            self.assertEqual(self.aggregator.recv(1 << 16), data)

    def test_an_aggregator_that_is_gone_does_not_end_it(self):
        self.start()
        self.worker.sendto(b"1", self.door.getsockname())
        self.aggregator.recvfrom(100)
        address = self.aggregator.getsockname()
        self.aggregator.close()
        self.send(10)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as back:
            back.settimeout(LIMIT_S)
            back.bind(address)
            self.worker.sendto(b"again", self.door.getsockname())
            while back.recv(100) != b"again":
                pass
        self.assertEqual(self.finish()["to_aggregator"]["received"], 12)


# Both ways in rounds of 50, each ended when all of it is back: the last ones come by time.
ROUNDS_OF_50 = OPEN + """
out_of_order = twice = 0
for start in range(0, 400, 50):
    for number in range(start, start + 50):
        s.sendto(b"%d" % number, aggregators[0])
    found = []
    while len(set(found)) < 50:
        number = int(s.recv(100))
        if number >= start:  # Not a late copy from the round before.
            found.append(number)
    out_of_order += found != sorted(found)
    twice += len(found) > 50
print("out of order" if out_of_order else "in order", "twice" if twice else "once")
"""


class InALab:
    def counts(self, *options, workers=2, shows):
        done = self.lab("--workers", workers, "--aggregators", 1, "--aggregator-command",
                        python(ECHO), *options, code=ROUNDS_OF_50)
        for rank in range(workers):
            self.assertIn(f"[{rank}] {shows}\n", done.stdout)
        result = self.result()
        if not result["relays"]:
            return None
        told, = result["relays"]
        self.assertIn("lab: relay 0, address ", done.stderr)
        self.assertEqual(told["flows"], workers)
        there, home = told["to_aggregator"], told["to_workers"]
        self.assertEqual(there["received"], workers * 400)
        self.assertEqual((there["lost"], home["lost"]), (0, 0))
        return there["duplicated"], there["held"]

    def test_duplicates(self):
        duplicated, held = self.counts("--duplicate", 10, shows="out of order twice")
        self.assertTrue(binomial_range(800, 0.1)[0] <= duplicated <= binomial_range(800, 0.1)[1])
        self.assertEqual(held, 0)

    def test_reordering(self):
        duplicated, held = self.counts("--reorder", 10, shows="out of order once")
        self.assertTrue(binomial_range(800, 0.1)[0] <= held <= binomial_range(800, 0.1)[1])
        self.assertEqual(duplicated, 0)

    def test_delay_alone(self):
        self.assertEqual(self.counts("--delay", 1, shows="in order once"), (0, 0))

    def test_no_relay_where_there_is_nothing_to_do(self):
        self.assertIsNone(self.counts("--delay", 0, "--duplicate", 0, shows="in order once"))

    def test_same_seed_same_choices(self):
        def run(*seed):
            return self.counts("--duplicate", 20, "--reorder", 20, *seed, workers=self.seeded,
                               shows="out of order twice")
        first = run("--seed", 5)
        self.assertEqual(run("--seed", 5), first)
        self.assertNotEqual(run("--seed", 6), first)
        self.assertEqual(run(), run("--seed", 1))

    def test_beside_workers(self):
        code = OPEN + ("for address in aggregators:\n"
                       "    s.sendto(b'x', address)\n    s.recv(100)\n    s.recv(100)\n")
        self.lab("--workers", 2, "--aggregators-on-workers", "--duplicate", 100,
                 "--aggregator-command", python(ECHO), code=code)
        self.assertEqual([told["to_aggregator"]["duplicated"] for told in self.result()["relays"]],
                         [2, 2])


@needs_namespaces
class InNamespaces(InALab, LabTest):
    seeded = 2  # Each has its own IP address, and so its own choices.

    def test_it_is_at_the_aggregator(self):
        code = OPEN + "print(aggregators[0][0], aggregators[0][1] != 48864)"
        done = self.lab("--workers", 1, "--aggregators", 1, "--delay", 1, "--aggregator-command",
                        python(ECHO), code=code)
        self.assertIn("[0] 10.77.0.101 True\n", done.stdout)


class OnLoopback(InALab, LabTest):
    preexec = staticmethod(without_sys_admin) if os.geteuid() == 0 else None
    seeded = 1  # All have one address there, so which comes first would matter.


if __name__ == "__main__":
    unittest.main()
