"""What strangers can do to the pages of sluiced: nothing that others notice."""

import re
import socket
import unittest

from sluiced_kit import Daemon, SluicedTest


class Strangers(SluicedTest):
    def connect(self, daemon):
        host, port = daemon.http.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)))
        self.addCleanup(connection.close)
        return connection

    def send(self, connection, data):
        try:
            connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was cut off, as it should be

    def resident(self, daemon):
        """Bytes of memory."""
        with open(f"/proc/{daemon.job.pid}/status", encoding="ascii") as file:
            return 1024 * int(re.search(r"VmRSS:\s+([0-9]+) kB", file.read())[1])

    def check(self, daemon):
        self.assertEqual(daemon.get("/healthz"), (200, "ok\n"))

    def test_slow_connections(self):
        daemon = Daemon(self)
        slow = [self.connect(daemon) for _ in range(300)]
        self.check(daemon)
        for number, connection in enumerate(slow):
            if number % 2:
                self.send(connection, b"G")
        self.check(daemon)
        for number, connection in enumerate(slow):
            if number % 2:
                self.send(connection, b"ET /healthz HTTP/1.1\r\nA: b\r\n")
        self.check(daemon)

    def test_large_heads(self):
        daemon = Daemon(self)
        self.check(daemon)
        before = self.resident(daemon)
        for data in (b"GET /healthz HTTP/1.1\r\nA: " + b"x" * (64 << 20),
                     b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 200000):
            self.send(self.connect(daemon), data)
            self.check(daemon)
        self.assertLess(self.resident(daemon), before + (16 << 20))

    def test_a_head_that_is_a_little_too_large_is_told_so(self):
        connection = self.connect(Daemon(self))
        connection.sendall(b"GET /healthz HTTP/1.1\r\nA: " + b"x" * 20000)
        self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 431 "))

    def test_readers_that_never_read(self):
        daemon = Daemon(self)
        for _ in range(100):
            self.send(self.connect(daemon), b"GET /metrics HTTP/1.1\r\n\r\n")
        self.check(daemon)


if __name__ == "__main__":
    unittest.main()
