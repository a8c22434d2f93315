"""The algebra: every standing query is a tree of these nodes.

A relation is a multiset of rows that changes over time. Scalar expressions (`plan.scalars`) are trees over the
columns of the input; they were parsed, checked and typed by `sql.bind`. Hidden columns
begin with two underscores: `__ts` is the paper's TS in microseconds, `__seq` the order of arrival.

`inputs`, `rows`, `times`, `sessions`, `versions`, `alternatives`, `aggregations` and `ranking` define the nodes,
`properties` what is known of a tree of them.
"""

from __future__ import annotations

from tidemill.plan.relations.aggregations import GroupBy, JoinAggregate, WindowAggregate
from tidemill.plan.relations.alternatives import Alternatives
from tidemill.plan.relations.base import SEQ, STATIC_TIME, TS, Item, Relation
from tidemill.plan.relations.inputs import Amended, Clock, Constants, Delivered, Scan, Seed, SeedSince, Shed, Tag, View
from tidemill.plan.relations.properties import (
    Rounds,
    append_only,
    beginning,
    change_inputs,
    closes_for_good,
    comes_at_stamp,
    first_answer_time,
    groups_at_once,
    leaves_whole,
    may_precede_clock,
    never_changes,
    nodes_above_views,
    single_insertions,
    visit_once,
    with_children,
)
from tidemill.plan.relations.ranking import Ranked, RankFunction, WindowFunctions
from tidemill.plan.relations.recursion import PREVIOUS, Previous, Recursive, input_name
from tidemill.plan.relations.rows import Filter, Join, Project, SetCombine, SetKind, Union, Unnest
from tidemill.plan.relations.sessions import END, START, Sessions
from tidemill.plan.relations.times import (
    CatchUp,
    ChangeStream,
    RowPoints,
    RowsWindow,
    Rstream,
    Stamp,
    Synchronize,
    SynchronizeOn,
    SynchronizePeriods,
    Temporal,
)
from tidemill.plan.relations.versions import JoinAt
from tidemill.plan.scalars import quoted

__all__ = [
    "END",
    "PREVIOUS",
    "SEQ",
    "START",
    "STATIC_TIME",
    "TS",
    "Alternatives",
    "Amended",
    "CatchUp",
    "ChangeStream",
    "Clock",
    "Constants",
    "Delivered",
    "Filter",
    "GroupBy",
    "Item",
    "Join",
    "JoinAggregate",
    "JoinAt",
    "Previous",
    "Project",
    "RankFunction",
    "Ranked",
    "Recursive",
    "Relation",
    "Rounds",
    "RowPoints",
    "RowsWindow",
    "Rstream",
    "Scan",
    "Seed",
    "SeedSince",
    "Sessions",
    "SetCombine",
    "SetKind",
    "Shed",
    "Stamp",
    "Synchronize",
    "SynchronizeOn",
    "SynchronizePeriods",
    "Tag",
    "Temporal",
    "Union",
    "Unnest",
    "View",
    "WindowAggregate",
    "WindowFunctions",
    "append_only",
    "beginning",
    "change_inputs",
    "closes_for_good",
    "comes_at_stamp",
    "first_answer_time",
    "groups_at_once",
    "input_name",
    "leaves_whole",
    "may_precede_clock",
    "never_changes",
    "nodes_above_views",
    "quoted",
    "single_insertions",
    "visit_once",
    "with_children",
]
