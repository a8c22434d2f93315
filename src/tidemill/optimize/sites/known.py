"""What the fragments of our own plans ship: a join value travels once, and stays known.

The paper's algorithms send the values of every interval again, or counts of them. A fragment `SELECT DISTINCT …` sends
a value when it is new, and rows of known values follow without being asked for. So keys cost less with time, and rows
more: after a while a row crosses if its value is among those that the other stream ever has.
"""

from __future__ import annotations

from tidemill.optimize.sites.parameters import Constants, OneWayJoin, SiteStream, occupancy
from tidemill.optimize.sites.shipments import Shipment


def list_known_shipments(
    algorithm: str, join: OneWayJoin, age: float, constants: Constants | None = None
) -> list[Shipment]:
    """Shipments of a plan that has run for `age` seconds; the result is not among them.

    >>> left, right = SiteStream("L", 300, 3.0, 1250, 5, 5), SiteStream("R", 300, 3.0, 1250, 5, 100)
    >>> [(s.what, round(s.bytes)) for s in list_known_shipments("SM-S1", OneWayJoin(left, right, 0.1), age=60)]
    [('keys of first', 0), ('rows of second', 18750)]
    """
    if join.first.site == join.second.site:
        return []
    near, far, names = join.first, join.second, ("first", "second")
    if algorithm in ("SP-D", "SM-D1", "SM-D2"):
        near, far, names = far, near, ("second", "first")
    if algorithm in ("SP-S", "SP-D"):
        rows = _shipment(f"rows of {names[1]}", far, near, far.rate * far.full, far.rate, join.interval)
        return [rows]
    return _semijoin(algorithm, join, (near, far), names, age, constants or Constants())


def _semijoin(
    algorithm: str,
    join: OneWayJoin,
    ends: tuple[SiteStream, SiteStream],
    names: tuple[str, str],
    age: float,
    constants: Constants,
) -> list[Shipment]:
    """Keys of the near stream go to the far one, rows come back; with two steps only keys that the far one has."""
    near, far = ends
    common, asked = min(near.distinct, far.distinct), known_share(near, age)
    rows = far.rate * common / far.distinct * asked
    found = []
    if algorithm in ("SM-S2", "SM-D2"):
        new = new_values(far, age)
        found.append(_shipment(f"keys of {names[1]}", far, near, new * far.partial, new, join.interval))
        fresh = common * (
            known_share(near, age + 1) * known_share(far, age + 1) - known_share(near, age) * known_share(far, age)
        )
    else:
        fresh = new_values(near, age)
    size = constants.fingerprint_bytes if algorithm == "BLOOM" else near.partial
    found.append(_shipment(f"keys of {names[0]}", near, far, fresh * size, fresh, join.interval))
    found.append(_shipment(f"rows of {names[1]}", far, near, rows * far.full, rows, join.interval))
    return found


def _shipment(
    what: str, source: SiteStream, target: SiteStream, size: float, changes: float, interval: float
) -> Shipment:
    """A message in each interval in which there is something to send."""
    return Shipment(what, source.site, target.site, size, min(changes, 1 / interval))


def _known_values(stream: SiteStream, age: float) -> float:
    """Join values that have come."""
    return occupancy(stream.distinct, stream.rate * age)


def known_share(stream: SiteStream, age: float) -> float:
    """The share of a stream's join values that have come."""
    return _known_values(stream, age) / stream.distinct


def new_values(stream: SiteStream, age: float) -> float:
    """Join values that come for the first time in a second."""
    return _known_values(stream, age + 1) - _known_values(stream, age)
