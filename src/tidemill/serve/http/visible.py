"""What a user may see of the engine: everything, or what concerns the views that were granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidemill.engine.users.session import Session
from tidemill.errors import CatalogProblem

if TYPE_CHECKING:
    from tidemill.engine import Database


def check_sees_all(session: Session, what: str) -> None:
    """Refuse a reader of single views (TM330)."""
    if not session.access.reads_everything:
        raise CatalogProblem(
            "TM330",
            f'user "{session.user}" may not see {what}',
            hint=f"a user with all rights can say GRANT CREATE TO {session.user}",
        )


def visible_status(db: Database, session: Session) -> dict[str, Any]:
    """The status; a reader sees the views that were granted, and nothing of what they are made from."""
    status: dict[str, Any] = dict(db.status())
    if session.access.reads_everything:
        return status
    kept = ("running", "batch", "clock")
    views = [view for view in status["views"] if session.access.may_read(view["name"])]
    return {**{name: status[name] for name in kept}, "views": views, "sources": [], "sinks": []}
