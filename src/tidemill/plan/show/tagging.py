"""Reports of shared taggers as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.plan.show.sharing import table

_FEW = 12


def tagging_text(found: Mapping[str, Any]) -> str:
    """One keyed stream: who reads it, and what the pipelines of figure 12 cost in a second of event time.

    >>> plan = {"plan": "a", "name": "separate", "NS": 2000.0, "NG": 400.0, "cost": 3e6, "chosen": True}
    >>> shared = {"source": "S", "key": ["k"], "queries": ["V", "W"], "taggers": 2, "statistics": "assumed"}
    >>> finer = {"rows": 0.634, "basis": "predicted"}
    >>> print(tagging_text(shared | {"plans": [plan], "finer": finer}))
    pipelines over S by k: 2 queries with 2 taggers (V, W), statistics assumed; finer grouping: 63 % of rows, predicted
      plan           NS/s  NG/s  ms/s
      a (separate)  2,000   400     3  ←
    """
    names = ", ".join(found["queries"][:_FEW]) + (" …" if len(found["queries"]) > _FEW else "")
    rows = [
        [
            f"{plan['plan']} ({plan['name']})",
            f"{plan['NS']:,.0f}",
            f"{plan['NG']:,.0f}",
            f"{plan['cost'] / 1e6:.3g}",
            "←" if plan["chosen"] else "",
        ]
        for plan in found["plans"]
    ]
    lines = table(["plan", "NS/s", "NG/s", "ms/s", ""], rows)
    head = (
        f"pipelines over {found['source']} by {', '.join(found['key'])}: {len(found['queries'])} queries"
        f" with {found['taggers']} taggers ({names}), statistics {found['statistics']};"
        f" finer grouping: {found['finer']['rows']:.0%} of rows, {found['finer']['basis']}".replace("%", " %")
    )
    return "\n".join([head, *("  " + line for line in lines)])
