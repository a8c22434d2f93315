"""How far views are that read their streams a second time, from the beginning."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidemill.engine.views.bound_view import BoundView
from tidemill.engine.views.rereading import first_name, second_readings
from tidemill.runtime.views.store import ViewStore


def share_read(view: BoundView, metas: Mapping[str, str]) -> float | None:
    """How much of its streams a view has read again; None where it has caught up, or reads nothing again. `metas` is
    what the store remembers of the last batch.
    """
    if view.entry.moment is None:
        return None
    known = json.loads(metas.get("progress", "{}")).get("sources", {})
    found = [known.get(name, {"behind": True, "share": 0.0}) for name in second_readings(view.node)]
    return min((entry["share"] for entry in found if entry["behind"]), default=None)


def backfilling_text(share: float | None) -> str:
    """The same in words.

    >>> backfilling_text(0.402), backfilling_text(None)
    ('backfilling 40 %', '')
    """
    return "" if share is None else f"backfilling {int(share * 100)} %"


def views_behind(views: list[BoundView], source: str, store: ViewStore) -> list[str]:
    """The views that are still reading a source again."""
    reading = (v for v in views if source in {first_name(name) for name in second_readings(v.node)})
    metas = store.metas()
    return [v.entry.name for v in reading if share_read(v, metas) is not None]
