"""Warnings of a run about its input, except late rows: undeclared fields, shed updates, files that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidemill.plan.sources import registered_name
from tidemill.runtime.messages.source_counts import TallyCounts

SHOWN = 8  # names: a warning stays a few lines long


def input_warnings(tallies: Iterable[dict[str, TallyCounts]]) -> Iterator[str]:
    """Sentences for each source, from the tallies of micro-batches. A field is reported when it is new.

    >>> one = {"undeclared": {"b": 2, "c": 1}, "new_fields": ["b"], "files": ["/in/a.csv: it is empty"]}
    >>> for text in input_warnings([{"Raw@1": one}, {"Raw@1": one | {"new_fields": [], "files": []}}]):
    ...     print(text)
    Raw has no column for these fields, which are not read: b (4)
    file of Raw: /in/a.csv: it is empty
    """
    fields: dict[str, set[str]] = {}
    counts: dict[str, dict[str, int]] = {}
    files: dict[str, list[str]] = {}
    shed: dict[str, int] = {}
    for tally in tallies:
        for source, found in tally.items():
            name = registered_name(source)
            known = counts.setdefault(name, {})
            for field, count in found.get("undeclared", {}).items():
                known[field] = known.get(field, 0) + count
            fields.setdefault(name, set()).update(found.get("new_fields", ()))
            files.setdefault(name, []).extend(found.get("files", ()))
            shed[name] = shed.get(name, 0) + found.get("shed", 0)
    for name, new in fields.items():
        if new:
            often = sorted(new, key=lambda field: (-counts[name][field], field))
            named = ", ".join(f"{field} ({counts[name][field]:,})" for field in often[:SHOWN])
            more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
            yield f"{name} has no column for these fields, which are not read: {named}{more}"
    for name, rows in shed.items():
        if rows:
            yield f"{rows:,} updates of {name} were shed: more than shed_updates for a key in a clock unit"
    for name, texts in files.items():
        yield from (f"file of {name}: {text}" for text in texts[:SHOWN])
        if len(texts) > SHOWN:
            yield f"and {len(texts) - SHOWN} more files of {name}"
