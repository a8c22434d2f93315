"""Previews: a few rows are read before the first batch, for statistics of the plan and the size of the batch."""

from __future__ import annotations

from tidemill.engine.adapt.sharing import Sharing
from tidemill.plan.physical import Physical
from tidemill.runtime import fast_paths
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.runtime.messages.control import PreviewNote
from tidemill.runtime.paths import Paths, read_json
from tidemill.runtime.planning.preview import Preview, preview_source


def preview_sources(paths: Paths, plan: Physical) -> dict[str, Preview]:
    """Preview the sources of a plan that have not been read yet; those whose preview gave something, by name."""
    if "preview" in plan.fast_paths_off or not fast_paths.is_on("preview"):
        return {}
    known = (read_json(paths.progress) or {"sources": {}})["sources"]
    with fast_paths.without(plan.fast_paths_off), seldom_collected():
        looks = {s.name: preview_source(paths.root, plan, s.name) for s in plan.sources if s.name not in known}
    return {name: look for name, look in looks.items() if look is not None}


def learn_from_previews(sharing: Sharing, plan: Physical, looks: dict[str, Preview]) -> bool:
    """Take in the statistics; True when another plan is better by them."""
    counted = [(plan.lfta_of(name), look.counted) for name, look in looks.items()]
    return any([sharing.learn_preview(op, counts) for op, counts in counted if op is not None and counts is not None])


def describe_previews(looks: dict[str, Preview], version: int) -> dict[str, PreviewNote]:
    """For the planner: how many rows were previewed and how much they sent under this plan version. Later batches
    replace it.
    """
    return {name: {"plan": version, "rows": look.rows, "sent": look.sent} for name, look in looks.items()}
