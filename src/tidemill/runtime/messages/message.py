"""Messages: (shard, port, payload) triples, and the ports that are not those of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Message = tuple[int, str, bytes]  # (shard label, port, payload)

TICK, DEAD = "tick", "dead"
LOOP = "loop:"  # rows that go round into the next micro-batch
PEEK, PEEK_LOOP = "peek:", "peek-loop:"  # of the provisional end of the input


def select_messages(messages: Iterable[Message], prefix: str) -> Iterator[Message]:
    """Messages whose port begins with `prefix`, without it.

    >>> list(select_messages([(0, "loop:a", b"1"), (1, "tick", b"2")], LOOP))
    [(0, 'a', b'1')]
    """
    for shard, port, payload in messages:
        if port.startswith(prefix):
            yield shard, port[len(prefix) :], payload


def payloads(messages: Iterable[Message]) -> list[tuple[str, bytes]]:
    """(port, payload) of all messages."""
    return [(port, payload) for _, port, payload in messages]


def tentative_payloads(messages: Iterable[Message]) -> list[tuple[str, bytes]]:
    """The same of what holds until the next rows come."""
    return payloads(select_messages(messages, PEEK))
