"""Nodes are known by a text of their operands; windows are read back from the text that is written for them."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sqlglot import parse_one

from tests.properties.effort import effort
from tidemill.plan import bounds
from tidemill.plan.aggregates import Aggregate
from tidemill.plan.node import Node, _fields_text
from tidemill.plan.relations import Filter, GroupBy, Item, Project, Scan, Temporal, Union, quoted
from tidemill.plan.sources import Column

names = st.text(max_size=5)
numbers = st.integers(-(1 << 70), 1 << 70)


@st.composite
def trees(draw: st.DrawFn) -> Node:
    columns = tuple(draw(st.lists(st.builds(Column, names, names), max_size=3)))
    scan = Scan(draw(names), columns, draw(numbers), draw(st.booleans()))
    period = draw(st.none() | st.tuples(numbers, numbers))
    window = Temporal(Filter(scan, draw(names)), draw(st.none() | names), None, period)
    items = tuple(draw(st.lists(st.builds(Item, names, names, names), max_size=2)))
    calls = st.builds(Aggregate, names, st.none() | names, st.none(), names, names, st.booleans())
    grouped = GroupBy(Project(window, items), (), tuple(draw(st.lists(calls, max_size=2))))
    return Union((scan, grouped))


def slow(value: Any) -> Any:
    if isinstance(value, Node):
        return ["node", value.fingerprint]
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


@effort(200)
@given(name=st.text(min_size=1, max_size=6).filter(lambda t: "\x00" not in t), sign=st.sampled_from("+-"),
       number=st.integers(0, 1 << 70))
def test_a_sum_is_read_without_a_parser_as_with_one(name: str, sign: str, number: int) -> None:
    text = f"({quoted(name)} {sign} {number})"
    assert bounds._SUM.fullmatch(text)
    assert bounds.shift_of(text) == bounds._shift(parse_one(text, dialect="duckdb")) == (name, int(f"{sign}{number}"))


def test_what_is_not_a_sum_is_not_read_as_one() -> None:
    for text in ('("a" + 1.5)', '("a" + "b")', '(a + 1)', '("a" * 2)', '("t"."a" + 1)', '("a" + 1) + ("b" + 1)'):
        assert bounds._SUM.fullmatch(text) is None
        assert bounds.shift_of(text) is None
