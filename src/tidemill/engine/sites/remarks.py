"""EXPLAIN of a join between sites: how it is done, the text of each fragment, and what has crossed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidemill.sql.bind.imported_names import IMPORTS, PLACED

SITE_PLAN = "site_plan"  # the option of a view: how its join between sites is done
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
    for site in status:
        for edge in site["reads"]:
            if edge["edge"] in read:
                yield f"from {site['name']} {edge['received']:,} bytes and {edge['rows']:,} rows: {edge['text']}"
        for edge in site["sends"] if plan["methods"] else ():
            if edge["edge"].startswith(_beginning(read)):
                yield f"to {site['name']} {edge['sent']:,} bytes: {edge['text']}"


def _beginning(edges: Iterable[str]) -> str:
    """What the names of all edges of a plan begin with."""
    found = next((e for e in sorted(edges) if e.endswith(("_rows", "_answer"))), "")
    return found.rpartition(".q")[0] + ".q" + found.rpartition(".q")[2].partition("_")[0] + "_" if found else "\0"
