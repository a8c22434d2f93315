"""Nodes are known by a text of their operands."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.effort import effort
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.node import Node, _fields_text
from tidemill.plan.relations import Filter, GroupBy, Item, Project, Scan, Temporal, Union
from tidemill.plan.scalars import Literal, Scalar
from tidemill.plan.sources import Column

names = st.text(max_size=5)
values = st.builds(Literal, names)
numbers = st.integers(-(1 << 70), 1 << 70)


@st.composite
def trees(draw: st.DrawFn) -> Node:
    columns = tuple(draw(st.lists(st.builds(Column, names, names), max_size=3)))
    scan = Scan(draw(names), columns, draw(numbers), draw(st.booleans()))
    period = draw(st.none() | st.tuples(numbers, numbers))
    window = Temporal(Filter(scan, draw(values)), draw(st.none() | values), None, period)
    items = tuple(draw(st.lists(st.builds(Item, names, values, names), max_size=2)))
    calls = st.builds(Aggregate, names, st.none() | names, st.none(), names, names, st.booleans())
    grouped = GroupBy(Project(window, items), (), tuple(draw(st.lists(calls, max_size=2))))
    return Union((scan, grouped))


def slow(value: Any) -> Any:
    if isinstance(value, Node):
        return ["node", value.fingerprint]
    if isinstance(value, Scalar):
        return value.sql
    if isinstance(value, (tuple, list)):
        return [slow(v) for v in value]
    if is_dataclass(value):
        return [type(value).__name__, [slow(getattr(value, f.name)) for f in fields(value)]]
    return value


@effort(200)
@given(tree=trees())
def test_the_text_of_a_node_is_the_json_of_its_operands(tree: Node) -> None:
    for node in (tree, *tree.children, *tree.children[-1].children):
        operands = [slow(getattr(node, f.name)) for f in fields(node)]
        assert _fields_text(node) == json.dumps([type(node).__name__, operands])
