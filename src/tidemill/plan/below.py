"""What lies below the operators of a plan, and which sources are read together."""

from __future__ import annotations

from tidemill.plan.physical import CLOCK, Physical


class Below:
    """What lies below the operators of a stage, loops and exchanges included."""

    def __init__(self, plan: Physical) -> None:
        self.plan = plan
        self.ops = {op.id: op for op in plan.stage}
        self.loops = {edge.port: edge for edge in plan.loops}
        self.ports = {edge.port: edge.origin for edge in plan.exchanges}
        self.moving = frozenset(s.name for s in plan.sources if not s.static)
        self.origins = {s.name: s.origin_name for s in plan.sources}

    def all(self, *names: str) -> set[str]:
        """Operators and ports from which these are made."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += self.ops[name].inputs if name in self.ops else ()
                todo += [self.loops[name].source_op] if name in self.loops else ()
        return found

    def sources(self, name: str) -> frozenset[str]:
        """The streaming sources below an operator; all of them below the clock, but no second readings."""
        below = self.all(name)
        if CLOCK in below:
            return self.moving.intersection(self.origins.values())
        origins = (self.ports[n].partition(":") for n in below if n in self.ports)
        return frozenset(n for kind, _, n in origins if kind == "source") & self.moving

    def first_readings(self, name: str) -> frozenset[str]:
        """The same; in the place of a second reading of a source the source itself."""
        return frozenset(self.origins[source] for source in self.sources(name))


def sources_read_together(plan: Physical) -> tuple[frozenset[str], ...]:
    """The sources with event times, in disjoint sets: sources that one view reads are in the same set.

    The sources of a set advance in time together, independently of other sets. A second reading of a source advances
    with the first.
    """
    below = Below(plan)
    timed = frozenset(s.origin_name for s in plan.sources if s.timestamp and not s.static)
    found = {frozenset({name}) for name in timed}
    for together in {below.first_readings(output.op) & timed for output in plan.outputs}:
        meets = {s for s in found if s & together}
        found = (found - meets) | ({frozenset().union(*meets)} if meets else set())
    return tuple(sorted(found, key=sorted))
