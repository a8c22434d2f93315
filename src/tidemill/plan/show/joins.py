"""Reports of aggregation joins as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidemill.plan.show.sharing import table


def joins_text(found: Mapping[str, Any]) -> str:
    """One aggregation join: what each input keeps, and every plan with its costs."""
    why = "asked for" if found["asked"] else "the cheapest by the last choice"
    split = ", ".join(" = ".join(c) for c in found["split"]) or "nothing: all in one shard"
    split = split if found["spread"] is None else f"the rows of {found['spread']}"
    lines = [
        f"aggregation join of {found['view']}: plan {found['plan']} ({why}), {found['method']},"
        f" statistics {found['statistics']}",
        f"  split by {split}",
        *_hot(found["hot"]),
    ]
    lines += ["  " + line for line in (*_inputs_table(found), *_plans_table(found))]
    if "pairs" in found:
        kept = sum(x["measured"].get("bytes", 0.0) for x in found["inputs"])
        lines.append(
            f"  measured in the last batch: {found['pairs']:,.0f} joined rows, {found['groups']:,.0f} groups,"
            f" {_bytes(kept)} kept"
        )
    return "\n".join(lines)


def _inputs_table(found: Mapping[str, Any]) -> list[str]:
    """One line for each input: its form, what it keeps, and its statistics."""
    rows = [
        [
            x["input"],
            "early" if x["early"] else "late",
            ", ".join(x["kept"]) or "–",
            ", ".join(x["folded"]) or "–",
            " ".join(x["order"]) + (" (copied to all shards)" if x["copied"] else ""),
            _short(x["rate"]),
            _short(x["window"]),
            _short(x["set"]),
            _short(x["matches"]),
            _short(x["set_matches"]),
        ]
        for x in found["inputs"]
    ]
    head = ["input", "form", "kept", "folded", "probes", "rows/s", "window", "set", "m", "n"]
    return table(head, rows)


def _plans_table(found: Mapping[str, Any]) -> list[str]:
    """One line for each plan with its costs."""
    plans = [
        [
            p["plan"],
            _short(p["time"] / 1e6),
            _bytes(p["state"]),
            _bytes(p["network"]),
            _short(p["cost"] / 1e6),
            "←" if p["chosen"] else "",
        ]
        for p in found["plans"]
    ]
    return table(["plan", "ms/s", "state", "network/s", "cost", ""], plans)


def _hot(keys: Sequence[Mapping[str, Any]]) -> list[str]:
    """
    >>> _hot([{"key": "7", "input": "A", "split": True}, {"key": "x, 1", "input": "B", "split": False}])
    ['  hot keys, in all shards: 7 (the rows of A spread), x, 1 (being copied)']
    """
    if not keys:
        return []
    each = [f"{k['key']} ({'the rows of ' + k['input'] + ' spread' if k['split'] else 'being copied'})" for k in keys]
    return [f"  hot keys, in all shards: {', '.join(each)}"]


def _short(value: float) -> str:
    """
    >>> _short(1234567.0), _short(2.5), _short(0.0)
    ('1.235e+06', '2.5', '0')
    """
    return f"{value:.4g}"


def _bytes(value: float) -> str:
    """
    >>> _bytes(2_500_000), _bytes(640)
    ('2.5 MB', '640 B')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"
