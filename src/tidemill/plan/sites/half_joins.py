"""Joins of m inputs as half-joins: a change of one input visits the others, each at its site, in an order of its own.

Let ΔAₖ(t) be the changes of input k at time t. The joined relation changes at t by

    Σₖ A₁(t) ⋈ … ⋈ Aₖ₋₁(t) ⋈ ΔAₖ(t) ⋈ Aₖ₊₁(t⁻) ⋈ … ⋈ Aₘ(t⁻)

so a change sees inputs before its own as of its time and inputs behind it just before: ties are broken by the number of
the input, and two changes of one time pair once. The terms of a product may be joined in any order that is connected,
hence each head has a sequence of its own (Definition 1 of paper 001). A site answers a change of time t when its own
input is closed at t, and keeps what its input was until no earlier change can come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemill.plan.sites.query import Equality


@dataclass(frozen=True)
class HalfJoins:
    """The order in which changes of input `head` visit the others, by their numbers."""

    head: int
    order: tuple[int, ...]


def moment_seen(head: int, other: int, time: int) -> int:
    """The last moment whose changes of input `other` are seen by a change of input `head` at `time`.

    >>> moment_seen(head=1, other=0, time=7), moment_seen(head=1, other=2, time=7)
    (7, 6)
    """
    return time if other < head else time - 1


def connected_orders(inputs: Sequence[str], equalities: Iterable[Equality], head: int) -> list[HalfJoins]:
    """All orders in which each input is compared with one that is joined already.

    >>> chain = [Equality.inner("A", ("k",), "B", ("k",)), Equality.inner("B", ("k",), "C", ("k",))]
    >>> [h.order for h in connected_orders("ABC", chain, 1)], [h.order for h in connected_orders("ABC", chain, 0)]
    ([(0, 2), (2, 0)], [(1, 2)])
    """
    pairs = [{inputs.index(e.left), inputs.index(e.right)} for e in equalities]
    found: list[tuple[int, ...]] = [(head,)]
    for _ in range(len(inputs) - 1):
        found = [
            (*done, k)
            for done in found
            for k in range(len(inputs))
            if k not in done and any(k in p and p & set(done) for p in pairs)
        ]
    return [HalfJoins(head, order[1:]) for order in found]


def closed_until(frontiers: Iterable[int]) -> int:
    """Times before it are closed in the joined relation: all sequences have delivered their changes."""
    return min(frontiers)
