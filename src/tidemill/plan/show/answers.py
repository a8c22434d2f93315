"""How EXPLAIN says from which views a query is answered, and why not from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_REFUSED = 8  # views that are named with the reason why they do not answer


@dataclass(frozen=True)
class AnswerReport:
    """A part of a query that a view answers; `data`, `points`, `begins` and `cost` are sentences for people."""

    view: str
    data: str
    points: str
    begins: str
    cost: str

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        return dict(vars(self))


def answers_text(answers: Sequence[AnswerReport], refused: Mapping[str, str]) -> str:
    """The block of EXPLAIN.

    >>> print(answers_text([], {"Hot3": "every 3 s misses some of every 4 s"}))
    not answered from  Hot3: every 3 s misses some of every 4 s
    """
    lines = []
    for answer in answers:
        lines.append(f"answered from {answer.view}")
        for what in ("data", "points", "begins", "cost"):
            if text := getattr(answer, what):
                lines.append(f"  {what:7} {text}")
    if refused:
        shown = [f"{view}: {reason}" for view, reason in list(refused.items())[:_MOST_REFUSED]]
        more = len(refused) - len(shown)
        lines.append("not answered from  " + " · ".join(shown) + (f" · and {more} others" if more else ""))
    return "\n".join(lines)


__all__ = ["AnswerReport", "answers_text"]
