"""Ports for tests that run beside others."""

from __future__ import annotations

import random
import socket

BELOW_CLIENTS = range(20_000, 32_000)  # client sockets take their ports above 32,767, so none of them is in the way
drawn = random.SystemRandom()


def free_port() -> int:
    """A port of this machine that no server listens on, and that no client socket will be given meanwhile."""
    while True:
        port = drawn.choice(BELOW_CLIENTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
