"""A simulated network: messages are delayed, overtake each other, come twice or not at all, and are sent again."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Message:
    """The changes of one micro-batch of an edge, its number, and how far the edge is closed after it.

    `seen`: how far the keys that this edge answers had been applied.
    """

    edge: str
    number: int
    changes: tuple[tuple[int, Any, int], ...]
    frontier: int
    seen: int = 0


@dataclass
class Outbox:
    """What was sent on an edge and not acknowledged; sent again until it is."""

    messages: list[Message] = field(default_factory=list)
    acknowledged: int = 0

    def waiting(self) -> list[Message]:
        return self.messages[self.acknowledged :]


@dataclass
class Inbox:
    """Messages in the order of their numbers: duplicates are dropped, a gap is refused."""

    received: list[Message] = field(default_factory=list)

    def take(self, message: Message) -> bool:
        if message.number == len(self.received):
            self.received.append(message)
            return True
        return False


@dataclass
class Network:
    """Links between sites with a mood of their own; `counts` says what happened."""

    chance: random.Random
    loss: float
    patience: float
    outboxes: dict[str, Outbox] = field(default_factory=dict)
    inboxes: dict[str, Inbox] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)  # rounds for which an edge is cut
    counts: Counter[str] = field(default_factory=Counter)

    def open(self, edge: str) -> None:
        self.outboxes[edge], self.inboxes[edge] = Outbox(), Inbox()

    def send(self, edge: str, changes: list[tuple[int, Any, int]], frontier: int, seen: int) -> None:
        box = self.outboxes[edge]
        box.messages.append(Message(edge, len(box.messages), tuple(changes), frontier, seen))

    def round(self, *, calm: bool = False) -> list[tuple[str, Message]]:
        """Some of what waits arrives, in any order; what is accepted is acknowledged, perhaps."""
        arrived: list[tuple[str, Message]] = []
        flight = [m for box in self.outboxes.values() for m in box.waiting()]
        if not calm:
            self._cut_links()
            flight = [m for m in flight if self._gets_through(m)]
            flight += [m for m in flight if self.chance.random() < self.loss]
            self.chance.shuffle(flight)
        for message in flight:
            accepted = self.inboxes[message.edge].take(message)
            self.counts["accepted" if accepted else "refused"] += 1
            if accepted:
                arrived.append((message.edge, message))
            if calm or self.chance.random() >= self.loss:
                box = self.outboxes[message.edge]
                box.acknowledged = max(box.acknowledged, len(self.inboxes[message.edge].received))
        return arrived

    def _cut_links(self) -> None:
        for edge in self.outboxes:
            self.cut[edge] = max(0, self.cut.get(edge, 0) - 1)
            if self.chance.random() < self.loss / 4:
                self.cut[edge] = self.chance.randint(1, 6)
                self.counts["cut"] += 1

    def _gets_through(self, message: Message) -> bool:
        through = not self.cut[message.edge] and self.chance.random() < self.patience
        self.counts["arrived" if through else "delayed"] += 1
        return through
