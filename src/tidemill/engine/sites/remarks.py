"""EXPLAIN of a join between sites: how it is done, the text of each fragment, and what has crossed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidemill.engine.views.ways import SITE_PLAN, WAYS
from tidemill.sql.bind.imported_names import IMPORTS, PLACED

SITE_COSTS = "site_costs"  # the option of a view: what each way to join would cost, as it was last looked at
_WAYS = {
    "whole": "whole",
    "keys": "by keys of {}",
    "both": "by keys that it has in common with {}",
    "bloom": "by numbers of keys of {}",
}


def remarks_on_sites(options: Mapping[str, Any], status: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Sentences about the join of a view; none where it reads this site only."""
    read = {*options.get(IMPORTS, {}).values(), *options.get(PLACED, ())[:1]}
    if not read:
        return
    plan = options.get(SITE_PLAN, {"algorithm": "sp_s", "at": "this site", "methods": {}})
    ways = [f"{alias} {_WAYS[name].format(by)}" for alias, (name, by) in plan["methods"].items()]
    yield f"join between sites by {plan['algorithm']} at {plan['at']}" + (f": {', '.join(ways)}" if ways else "")
    coming = options.get(WAYS, {}).get("next")
    if coming is not None:
        when = (
            "as soon as its parts have begun" if coming["agreed"] is None else f"at event time {coming['agreed']:,} us"
        )
        yield f"{coming['algorithm']} takes over {when}: {coming['why']}"
    found = list(status)
    yield from _costs(options.get(SITE_COSTS, ()), *_join_rates(found, read, plan))
    for site in found:
        for edge in site["reads"]:
            if edge["edge"] in read:
                yield f"from {site['name']} {edge['received']:,} bytes and {edge['rows']:,} rows: {edge['text']}"
        for edge in site["sends"] if plan["methods"] else ():
            if edge["edge"].startswith(_beginning(read)):
                yield f"to {site['name']} {edge['sent']:,} bytes: {edge['text']}"


def _costs(listed: Iterable[Mapping[str, Any]], come: float | None, leave: float | None) -> Iterator[str]:
    """Each way to join with its price, the one in force marked, and beside it what was measured."""
    for way in listed:
        if "why" in way:
            yield f"  {way['algorithm']}: not possible, {way['why']}"
            continue
        parts = [
            f"{way['in']:,.0f} B/s in{_beside(way, come)}",
            f"{way['out']:,.0f} B/s out{_beside(way, leave)}",
            f"{way['messages']:.2f} messages/s",
            f"{way['latency']:.3f} s late",
            f"transmission {way['transmission']:.6f}",
            f"processing {way['processing']:.6f}",
            f"cost {way['cost']:.6f}",
        ]
        assumed = f" (assumed: {', '.join(way['assumed'])})" if way["assumed"] else ""
        yield f"{'* ' if way['chosen'] else '  '}{way['algorithm']}: {', '.join(parts)}{assumed}"


def _beside(way: Mapping[str, Any], measured: float | None) -> str:
    return f" [measured {measured:,.0f}]" if way["chosen"] and measured is not None else ""


def _join_rates(
    status: Iterable[Mapping[str, Any]], read: set[str], plan: Mapping[str, Any]
) -> tuple[float | None, float | None]:
    """Bytes a second of event time that come to the join of a view and leave for it; None where none were counted."""
    beginning, come, leave = _beginning(read), [], []
    for site in status:
        come += [e["received_rate"] for e in site["reads"] if e["edge"] in read or e["edge"].startswith(beginning)]
        leave += [e["sent_rate"] for e in site["sends"] if e["edge"].startswith(beginning)]
    sums = [[rate for rate in rates if rate is not None] for rates in (come, leave)]
    return (sum(sums[0]) if sums[0] else None), (sum(sums[1]) if sums[1] else None)


def _beginning(edges: Iterable[str]) -> str:
    """What the names of all edges of a plan begin with."""
    found = next((e for e in sorted(edges) if e.endswith(("_rows", "_answer"))), "")
    return found.rpartition(".q")[0] + ".q" + found.rpartition(".q")[2].partition("_")[0] + "_" if found else "\0"
