"""Removes what no batch can need any more, while the engine runs.

Let p be the plan of the last batch in the views. That batch may be run again, and later ones have plans from p on, so
older plans are removed. A source that is neither in the catalog nor in a plan from p on is not read any more: its
folder, its counts and its place in the list of used names are removed. When p is the newest plan, no shard has state of
an operator that is not in it.
"""

from __future__ import annotations

import json
import os
import shutil

from tidemill.errors import EngineProblem
from tidemill.plan.physical import Physical
from tidemill.plan.sources import registered_name
from tidemill.runtime.messages.file_refs import remove_file
from tidemill.runtime.paths import Paths, folder_name, load_plan
from tidemill.runtime.views.outlet import Outlet
from tidemill.sql.catalog import Catalog


def tidy(paths: Paths, catalog: Catalog, outlet: Outlet) -> None:
    """Remove it. The catalog must be the saved one, and the caller holds the lock that protects it."""
    folders = os.listdir(paths.sources) if os.path.isdir(paths.sources) else []
    try:
        plans = _later_plans(paths, outlet.plan)
    except EngineProblem:  # a plan that is lost or cannot be read does not say what it needs
        return
    read = {spec.name for plan in plans for spec in plan.sources}
    known = read | {entry.spec.name for entry in catalog.of("source", "table") if entry.spec}
    for folder in set(folders) - {folder_name(name) for name in known}:
        shutil.rmtree(os.path.join(paths.sources, folder), ignore_errors=True)
    _forget_counts(outlet, known)
    names = {registered_name(name).lower() for name in known} | set(catalog.entries)
    catalog.settings["used"] = [name for name in catalog.settings.get("used", []) if name in names]
    if outlet.plan == catalog.version:
        bits = catalog.settings.get("bits", {})
        for store in [store for store, given in bits.items() if set(given) <= {"next"}]:
            del bits[store]


def _later_plans(paths: Paths, oldest: int) -> list[Physical]:
    """The plans that a batch may still need; the others are removed."""
    found = [load_plan(paths.plan(oldest))] if oldest else []
    for name in sorted(os.listdir(paths.plans)) if os.path.isdir(paths.plans) else []:
        number = name.partition(".")[0]
        if not number.isdigit():
            continue
        if int(number) < oldest:
            remove_file(os.path.join(paths.plans, name))
        else:
            found.append(load_plan(os.path.join(paths.plans, name)))
    return found


def _forget_counts(outlet: Outlet, known: set[str]) -> None:
    with outlet.lock:
        for meta in ("totals", "read"):
            found = json.loads(outlet.known.get(meta, "{}"))
            kept = {name: note for name, note in found.items() if name in known}
            if len(kept) < len(found):
                outlet.known[meta] = json.dumps(kept)
                outlet.store.remember({meta: outlet.known[meta]})
