"""Other sites in `tidemill status`: whether they are there, what waits for them and what is read from them."""

from __future__ import annotations

from typing import Any

from tidemill.plan.value_text import clean
from tidemill.serve.render import format_length, format_size, grid


def sites_tables(status: dict[str, Any]) -> list[Any]:
    """One line for each site, and one for each edge; nothing without sites."""
    sites = status.get("sites") or []
    if not sites:
        return []
    table = grid(
        "Sites", "name", "address", "connected", ">round trip", ">bandwidth", ">outbox", ">inbox", ">oldest", ""
    )
    for site in sites:
        trip, oldest = site.get("round_trip_seconds"), site.get("oldest_seconds")
        table.add_row(
            clean(site["name"]),
            clean(site.get("address") or "–"),
            "yes" if site.get("connected") else "no",
            "–" if trip is None else f"{trip * 1000:.0f} ms",
            "–" if site.get("bandwidth") is None else f"{format_size(int(site['bandwidth']))}/s",
            format_size(site.get("outbox_bytes") or 0),
            format_size(site.get("inbox_bytes") or 0),
            "–" if oldest is None else format_length(oldest),
            first_line(site.get("problem")) if site.get("reads") else "",
        )
    edges = _edges_table(sites)
    return [table, edges] if edges.row_count else [table]


def _edges_table(sites: list[dict[str, Any]]) -> Any:
    """One line for each edge, both ways."""
    edges = grid("Edges", "name", "way", "algorithm", ">bytes", ">waiting", ">lag", ">keys", "")
    for site in sites:
        for edge in site["reads"]:
            way = f"from {clean(site['name'])}"
            size = format_size(edge["received"]), format_size(edge["bytes"])
            lag, keys = edge.get("lag_seconds"), edge.get("known_keys")
            shown = "–" if lag is None else format_length(lag), "–" if keys is None else f"{keys:,}"
            how = clean(str(edge.get("algorithm", "sp_s")))
            edges.add_row(clean(edge["name"]), way, how, *size, *shown, first_line(edge.get("problem")))
        for edge in site["sends"]:
            edges.add_row(
                clean(edge["name"]),
                f"to {clean(site['name'])}",
                "–",
                format_size(edge["sent"]),
                format_size(edge["bytes"]),
                "–",
                "–",
                "",
            )
    return edges


def first_line(problem: str | None) -> str:
    """
    >>> first_line("TM702 site cannot be reached\\ndetail: …"), first_line(None)
    ('TM702 site cannot be reached', '')
    """
    return clean(problem.splitlines()[0]) if problem else ""
