"""What has been read of each source since it was registered: counts, undeclared fields, bad files."""

from __future__ import annotations

from typing import Required, TypedDict

from tidemill.plan.measured.sources import Sources
from tidemill.plan.physical import FOREVER
from tidemill.runtime.messages.source_counts import MOST_FILES, TallyCounts
from tidemill.runtime.sources.records import MOST_UNDECLARED


class SourceTotal(TypedDict, total=False):
    """One source."""

    rows: Required[int]
    late: Required[int]
    bad: Required[int]
    shed: int
    undeclared: dict[str, int]
    files: list[str]


class ReadNote(TypedDict):
    """How far a source is closed, and whether its late rows would be found again."""

    floor: int
    again: bool


Totals = dict[str, SourceTotal]


def add_tallies(totals: Totals, tallies: dict[str, TallyCounts]) -> Totals:
    """The totals with the counts of a batch. Each tally gets the list of its undeclared fields that are new, because
    they are reported once.

    >>> tally = {"rows": 3, "late": 0, "bad": 1, "undeclared": {"b": 2}, "files": ["/in/a.csv: why"]}
    >>> add_tallies({"S": {"rows": 1, "late": 0, "bad": 0}}, {"S": tally})["S"]
    {'rows': 4, 'late': 0, 'bad': 1, 'undeclared': {'b': 2}, 'files': ['/in/a.csv: why']}
    >>> tally["new_fields"]
    ['b']
    """
    for name, tally in tallies.items():
        total = totals.setdefault(name, {"rows": 0, "late": 0, "bad": 0})
        total["rows"] += tally["rows"]
        total["late"] += tally["late"]
        total["bad"] += tally["bad"]
        if tally.get("shed"):
            total["shed"] = total.get("shed", 0) + tally["shed"]
        fields = total.setdefault("undeclared", {})
        tally["new_fields"] = [f for f in tally["undeclared"] if f not in fields][: MOST_UNDECLARED - len(fields)]
        for field, count in tally["undeclared"].items():
            if field in fields or field in tally["new_fields"]:
                fields[field] = fields.get(field, 0) + count
        total["files"] = [*total.get("files", ()), *tally["files"]][-MOST_FILES:]
    return totals


def rows_of(totals: Totals, source: str) -> int:
    """The rows that have been read of a source.

    >>> rows_of({"S": {"rows": 3, "late": 0, "bad": 0}}, "S"), rows_of({}, "S")
    (3, 0)
    """
    return totals[source]["rows"] if source in totals else 0


def note_read(sources: Sources) -> dict[str, ReadNote]:
    """What is kept of sources after they have left the plan: how far they are closed, and whether their late rows would
    be found again. Nothing of tables, and of second readings.

    >>> second = {"floor": 3, "top": 3, "behind": True}
    >>> note_read({"S": {"floor": 5, "top": 6, "again": True}, "S#history2": second})
    {'S': {'floor': 5, 'again': True}}
    """
    first = {name: entry for name, entry in sources.items() if "behind" not in entry and entry["floor"] < FOREVER}
    return {name: {"floor": entry["floor"], "again": bool(entry.get("again"))} for name, entry in first.items()}
