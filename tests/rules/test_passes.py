"""Rules that have nothing to do are left out of a pass: what comes out is what passes over every node give."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.rules.test_rules import HERE, database  # noqa: F401  a fixture
from tests.statements import parse_one
from tidemill.engine.views.answering import Beginning
from tidemill.optimize.optimizer import RULES, optimize
from tidemill.plan.relations import Relation, View, with_children

QUERIES = [case["sql"] for path in sorted(HERE.glob("*.yaml")) for case in yaml.safe_load(path.read_text())["cases"]]


def slow(node: Relation) -> tuple[Relation, list[Any]]:
    trace: list[Any] = []
    for rule in RULES:
        while (changed := _everywhere(node, rule, trace, {})) is not node:
            node = changed
    return node, trace


def _everywhere(node: Relation, rule: Any, trace: list[Any], seen: dict[str, Relation]) -> Relation:
    if node.fingerprint in seen:
        return seen[node.fingerprint]
    before = node
    if not isinstance(node, View):
        better = rule(node)
        if better is not None:
            trace.append((rule.__name__, node, better))
            node = better
        fresh = [_everywhere(c, rule, trace, seen) for c in node.children]  # type: ignore[arg-type]
        if any(a is not b for a, b in zip(node.children, fresh, strict=True)):
            node = with_children(node, *fresh)
    seen[before.fingerprint] = node
    return node


@pytest.mark.parametrize("sql", QUERIES)
def test_a_rule_left_out_would_have_changed_nothing(sql: str, database: Any) -> None:  # noqa: F811
    query = parse_one(sql).query
    text = query.to_s()
    bound = database.workload.bind(query, Beginning(1)).node
    assert query.to_s() == text, "a query may be bound again"
    done = optimize(bound)
    node, trace = slow(bound)
    assert done.node is node
    assert done.trace == trace
