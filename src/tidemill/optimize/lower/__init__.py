"""Logical plan to physical plan: where each operator runs and how rows get there.

Stateless operators over a source run in the reader. A stateful operator runs in a stage and needs the rows of
equal key in one shard: rows from a reader are exchanged, rows that are in the right shards stay there, and all others
pass through the outlet (a loop) into the next micro-batch. So the Spark topology is the same for every plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tidemill.optimize.joins.decide import JoinSettings
from tidemill.optimize.lower.joins import Joins
from tidemill.optimize.lower.placement import Handle
from tidemill.optimize.lower.ranking import Ranking
from tidemill.optimize.lower.streams import Streams
from tidemill.optimize.lower.windows import Windows
from tidemill.optimize.share.reader_plan import Settings
from tidemill.optimize.share.weave import Bits
from tidemill.optimize.views.tagging import TaggingSettings
from tidemill.plan import relations as r
from tidemill.plan.homes import Home
from tidemill.plan.physical import Output, Physical
from tidemill.plan.relations import Relation, append_only
from tidemill.plan.sources import SourceSpec


class _Lowering(Streams, Windows, Joins, Ranking):
    """All nodes."""

    def place(self, node: Relation) -> Handle:
        return _PLACES[type(node)](self, node)


_PLACES: dict[type[Relation], Callable[[_Lowering, Any], Handle]] = {
    r.Scan: _Lowering.place_scan,
    r.Constants: _Lowering.place_constants,
    r.Delivered: _Lowering.place_scan,
    r.Amended: _Lowering.place_amended,
    r.Seed: _Lowering.place_seed,
    r.SeedSince: _Lowering.place_seed,
    r.Clock: _Lowering.place_clock,
    r.View: _Lowering.place_view,
    r.Filter: _Lowering.place_filter,
    r.Project: _Lowering.place_project,
    r.Union: _Lowering.place_union,
    r.Unnest: _Lowering.place_unnest,
    r.Temporal: _Lowering.place_temporal,
    r.Synchronize: _Lowering.place_synchronize,
    r.SynchronizePeriods: _Lowering.place_synchronize_periods,
    r.SynchronizeOn: _Lowering.place_synchronize_on,
    r.RowPoints: _Lowering.place_row_points,
    r.RowsWindow: _Lowering.place_rows_window,
    r.Stamp: _Lowering.place_stamp,
    r.Rstream: _Lowering.place_rstream,
    r.ChangeStream: _Lowering.place_change_stream,
    r.CatchUp: _Lowering.place_catch_up,
    r.Alternatives: _Lowering.place_alternatives,
    r.WindowAggregate: _Lowering.place_window_aggregate,
    r.Shed: _Lowering.place_shed,
    r.Tag: _Lowering.place_tag,
    r.GroupBy: _Lowering.place_group_by,
    r.SetCombine: _Lowering.place_set_combine,
    r.Join: _Lowering.place_join,
    r.JoinAt: _Lowering.place_join_at,
    r.JoinAggregate: _Lowering.place_join_aggregate,
    r.Ranked: _Lowering.place_ranked,
    r.WindowFunctions: _Lowering.place_window_functions,
    r.Sessions: _Lowering.place_sessions,
    r.Recursive: _Lowering.place_recursive,
}


def lower(
    roots: Mapping[str, Relation],
    sources: Mapping[str, SourceSpec],
    *,
    version: int,
    unit_us: int,
    shards: Iterable[int],
    bits: Bits | None = None,
    sharing: Settings | None = None,
    join_settings: JoinSettings | None = None,
    tagging: TaggingSettings | None = None,
    homes: dict[str, Home] | None = None,
) -> Physical:
    """One physical plan for all standing queries; equal subplans appear once.

    `bits` has the bit of each query in the signatures of its store, kept from plan to plan; it is updated in place.
    `homes` is filled with the placement of the rows of every operator and port of the stage.
    """
    work = _Lowering(sources, unit_us)
    work.join_settings = join_settings or JoinSettings()
    work.share_taggers(roots.values(), tagging or TaggingSettings())
    work.weave(roots.values(), {} if bits is None else bits, sharing or Settings())
    outputs = [Output(view, work.output(node), append_only(node)) for view, node in roots.items()]
    work.set_store_queries()
    if homes is not None:
        homes |= _find_homes(work)
    return Physical(
        version=version,
        unit_us=unit_us,
        shards=tuple(shards),
        sources=_with_first_readings(work),
        reader=tuple(work.reader.values()),
        stage=tuple(work.stage.values()),
        exchanges=tuple(work.exchanges.values()),
        loops=tuple(work.loops.values()),
        outputs=tuple(outputs),
        seeds=tuple(work.seeds),
    )


def _with_first_readings(work: _Lowering) -> tuple[SourceSpec, ...]:
    """The sources of a plan; a second reading goes on with the first, which is therefore in the plan as well."""
    first = {spec.rereads: work.sources[spec.rereads] for spec in work.specs.values() if spec.rereads}
    return tuple((first | work.specs).values())


def _find_homes(work: _Lowering) -> dict[str, Home]:
    """The placement of the rows of every operator and port of the stage."""
    edges = (*work.exchanges.values(), *work.loops.values())
    ports = {e.port: Home(e.route, tuple(frozenset([k]) for k in e.keys)) for e in edges}
    return {name: Home(where.how, where.by) for name, where in work.placements.items()} | ports
