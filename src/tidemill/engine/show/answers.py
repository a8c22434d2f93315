"""Reports of the views that answer a query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container

from tidemill.optimize.views.answer import Answer, Answered, show_cost
from tidemill.plan import relations as r
from tidemill.plan.node import walk
from tidemill.plan.points import Domain, show_points
from tidemill.plan.show.answers import AnswerReport

Holds = Callable[[str], str | None]  # what the view of an id holds now, in words


def report_answers(
    answer: Answer,
    unit_us: int,
    domain: Domain,
    reads: Collection[str],
    dropped: Container[str] = (),
    holds: Holds = lambda _: None,
) -> tuple[AnswerReport, ...]:
    """One report for each part of a query that a view answers; `reads` is what the query names in FROM, `dropped` are
    the ids of views without a name. `holds` says what a query that is created now would begin with.
    """
    streams = next(iter(reads)) if len(reads) == 1 else "the streams"
    return tuple(_report(part, unit_us, domain, streams, part.view.id in dropped, holds) for part in answer.parts)


def _report(part: Answered, unit_us: int, domain: Domain, streams: str, is_dropped: bool, holds: Holds) -> AnswerReport:
    own, view = (show_points(p.points, unit_us, domain) for p in (part.peeled, part.view.peeled))
    is_older = any(isinstance(n, r.Seed) for n in walk(part.view.source))
    held = holds(part.view.id) if is_older else None
    return AnswerReport(
        f"{part.view.name}, which was dropped and runs on" if is_dropped else part.view.name,
        _data(part),
        own if own == view else f"{own} ⊆ {view}",
        f"with {held or 'what the view held at its creation'} (history)"
        if is_older
        else "with the view: both were created before the same batch",
        _cost(part, streams),
    )


def _data(part: Answered) -> str:
    found = part.found
    said = [f"{because} implies {condition}" for condition, because in found.implied]
    rest = " AND ".join(condition.sql for condition in found.rest)
    said += [f"rest Filter[{rest}]"] if rest else []
    said += ["groups are grouped again"] if found.regroups else []
    return "; ".join(said) or "the same rows"


def _cost(part: Answered, streams: str) -> str:
    if part.costs is None:
        return "decided when it was created"
    view, otherwise = show_cost(part.costs.view), show_cost(part.costs.streams)
    return f"from {part.view.name} {view} · from {streams} {otherwise} ms/s, {part.costs.basis}; chosen"
