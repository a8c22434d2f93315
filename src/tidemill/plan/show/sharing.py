"""Reports of shared aggregation as text and as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_FEW = 12
_SIZES = ("relation", "buckets", "bytes", "edges/s", "queries")
_NO_TABLE = (
    "relations without buckets have no table: what the one above evicts becomes cells of their queries at once;",
    "a million rows in order and more need none at all and are added to running totals",
)


def sharing_text(shared: Mapping[str, Any]) -> str:
    """One source: configuration, tables, weaved groups, and what else was possible."""
    lines = [
        f"shared aggregation of {shared['source']}: {shared['queries']} queries, statistics {shared['statistics']}",
        f"  configuration  {shared['configuration']}",
        *(f"    {name} is {sql}" for name, sql in shared.get("attributes", {}).items()),
        f"  group-by tree  {shared['group_by_tree']}",
        f"  memory         {shared['memory_units']:,} units of 4 bytes",
    ]
    lines += ["  " + line for line in _relations_table(shared)]
    if not all(x["buckets"] for x in shared["relations"]):
        lines += ["  " + line for line in _NO_TABLE]
    lines += _groups(shared)
    lines += _costs(shared)
    lines.append("  predicted cost for each row (probes of a table)")
    plans = [
        [a["plan"], "yes" if a["phantoms"] else "no", str(a["weaved_groups"]), f"{a['cost']:.4g}"]
        for a in shared["alternatives"]
    ]
    plans.append(["chosen", "", str(len(shared["weaved_groups"])), f"{shared['cost']:.4g}"])
    lines += ["    " + line for line in table(["plan", "phantoms", "weaved groups", "cost"], plans)]
    return "\n".join(lines)


def _relations_table(shared: Mapping[str, Any]) -> list[str]:
    """One line for each relation: its table, and evictions and probes, predicted and measured."""
    rows = [
        [
            "  " * (x["depth"] - 1) + x["relation"],
            *(f"{x[size]:,}" if x["buckets"] else "–" for size in ("buckets", "bytes")),
            f"{x['edges_per_second']:g}",
            str(x["queries"]),
            f"{x['predicted_evicted']:.4f}",
            _or(x, "measured_evicted", ".4f"),
            _or(x, "predicted_probes", ","),
            _or(x, "probes", ","),
            _or(x, "predicted_evictions", ","),
            _or(x, "evictions", ","),
        ]
        for x in shared["relations"]
    ]
    return table([*_SIZES, "evicted", "measured", "probes", "measured", "evictions", "measured"], rows)


def _groups(shared: Mapping[str, Any]) -> list[str]:
    """One line for each weaved group, with its first queries."""
    lines = []
    for i, group in enumerate(shared["weaved_groups"]):
        members = ", ".join(group["queries"][:_FEW]) + (" …" if len(group["queries"]) > _FEW else "")
        lines.append(
            f"  weaved group {i + 1}: {group['edges_per_second']:g} edges/s, {len(group['queries'])} queries: {members}"
        )
    return lines


def _costs(shared: Mapping[str, Any]) -> list[str]:
    """Costs of the tables, predicted and measured, of the final aggregation, and of the end of a share."""
    met = "" if shared["measured_cost"] is None else f", measured {shared['measured_cost']:.4g}"
    tables, final = shared["tables_cost"], shared["final_cost"]
    lines = [f"  cost for each row: tables {tables:.4g}{met}; final aggregation {final:.4g}"]
    limit = shared["peak_limit"]
    ends = f"  end of a reader's share: {shared['peak_load']:,.0f}"
    if limit is None:
        return [*lines, ends]
    if shared["peak_load"] <= limit:
        return [*lines, f"{ends} of at most {limit:,.0f}"]
    return [*lines, f"{ends}, above the peak load of {limit:,.0f}: no plan is below it"]


def sharing_chart(shared: Mapping[str, Any], prefix: str) -> list[str]:
    """Mermaid lines: the stream, the relations it feeds, the tables below them."""
    lines = [f'  {prefix}(["{shared["source"]}"])']
    above: list[str] = [prefix]
    for i, relation in enumerate(shared["relations"]):
        name = f"{prefix}r{i}"
        above = [*above[: relation["depth"]], name]
        lines.append(f'  {name}["{relation["relation"]}<br/>{_buckets(relation)}"]')
        lines.append(f"  {above[relation['depth'] - 1]} --> {name}")
    return lines


def _buckets(relation: Mapping[str, Any]) -> str:
    return f"{relation['buckets']:,} buckets" if relation["buckets"] else "no table"


def _or(entry: Mapping[str, Any], key: str, form: str) -> str:
    return format(entry[key], form) if key in entry else "–"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, *rows]:
        rest = (v.rjust(w) for v, w in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    return lines
