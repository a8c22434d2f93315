"""Logical plan to physical plan: where each operator runs and how rows get there.

Stateless operators over a source run in the reader. A stateful operator runs in a stage and wants the rows of
equal key in one shard: rows from a reader are exchanged, rows already there in the right shards stay, and
others go round through the outlet (a loop) into the next micro-batch. So the Spark topology is the same for every plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.optimize.joins.decide import JoinSettings
from tidemill.optimize.lower.joins import Joins
from tidemill.optimize.lower.streams import Streams
from tidemill.optimize.lower.windows import Windows
from tidemill.optimize.share.shape import Settings
from tidemill.optimize.share.weave import Bits
from tidemill.plan.homes import Home
from tidemill.plan.physical import Output, Physical
from tidemill.plan.relations import Relation, insert_only
from tidemill.plan.sources import SourceSpec


class _Lowering(Streams, Windows, Joins):
    """All nodes."""


def lower(
    roots: Mapping[str, Relation],
    sources: Mapping[str, SourceSpec],
    *,
    version: int,
    unit_us: int,
    shards: Iterable[int],
    bits: Bits | None = None,
    sharing: Settings | None = None,
    joining: JoinSettings | None = None,
    homes: dict[str, Home] | None = None,
) -> Physical:
    """One physical plan for all standing queries; equal subplans appear once.

    `bits` remembers from plan to plan which bit of a signature belongs to which query; it is brought up to date.
    `homes` is told how the rows of every operator and port of the stage lie.
    """
    work = _Lowering(sources, unit_us)
    work.joining = joining or JoinSettings()
    work.weave(roots.values(), {} if bits is None else bits, sharing or Settings())
    outputs = [Output(view, work.output(node), insert_only(node)) for view, node in roots.items()]
    work.settle()
    if homes is not None:
        homes |= {name: Home(where.how, where.by) for name, where in work.lies.items()}
        homes |= {e.port: Home(e.route, tuple(frozenset([k]) for k in e.keys))
                  for e in (*work.exchanges.values(), *work.loops.values())}
    return Physical(
        version=version, unit_us=unit_us, shards=tuple(shards), sources=tuple(work.specs.values()),
        reader=tuple(work.reader.values()), stage=tuple(work.stage.values()),
        exchanges=tuple(work.exchanges.values()), loops=tuple(work.loops.values()),
        outputs=tuple(outputs), seeds=tuple(work.seeds),
    )
