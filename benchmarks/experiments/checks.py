"""Checks of the experiments: values against a limit, and why one is missed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.report import Check


@dataclass
class Explained(Check):
    """A check with the reason that the page gives when it is missed."""

    why: str = ""


def at_most(what: str, values: Sequence[float], limit: float, singles: Iterable[float] = (), why: str = "") -> Check:
    """The greatest value keeps below a limit; values may be means of single draws.

    >>> at_most("cost", [1.0, 1.25], 1.2, singles=[1.0, 1.5]).measured
    '1.250; single draws up to 1.500'
    """
    most = max(values)
    shown = f"{most:.3f}" + "".join(f"; single draws up to {s:.3f}" for s in sorted(singles)[-1:])
    return Explained(what, f"<= {limit:g}", shown, most <= limit, why)


def at_least(what: str, values: Sequence[float], limit: float, singles: Iterable[float] = (), why: str = "") -> Check:
    """The least value reaches a limit; values may be means of single draws."""
    least = min(values)
    shown = f"{least:.3f}" + "".join(f"; single draws down to {s:.3f}" for s in sorted(singles)[:1])
    return Explained(what, f">= {limit:g}", shown, least >= limit, why)
