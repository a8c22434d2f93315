"""What the offset of the next batch says of its sources beside their positions: what is dropped, shown and closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.plan.sources import ALWAYS, SHED, SHED_UPDATES, Position, SourceSpec
from tidemill.runtime.checkpoint.offsets import Offset, SourceOffset
from tidemill.runtime.messages.batch_progress import BatchProgress, SourceProgress


def sheds(spec: SourceSpec, before: SourceOffset | None, overloaded: bool) -> bool:
    """Whether a batch drops updates, for the offset: a replay does what it says, whatever waits by then. `before` is
    the entry of a source that nothing is read of.
    """
    if SHED_UPDATES not in spec.options:
        return False
    return before.shed if before is not None else overloaded or spec.options.get(SHED) == ALWAYS


def show_end(start: Offset, end: Offset, progress: BatchProgress, quiet: bool) -> Offset:
    """Note in the offset whether the batch shows provisional rows, as if the input ended with it: at the end of a run
    that leaves the newest times open or when it is `quiet`, and until rows come. `peeks` numbers these ends; the batch
    continues the end of the batch before only if there was no other feedback.
    """
    if end.final != start.final:
        shows = end.closes == start.closes
    else:
        shows = (quiet or bool(end.peek)) and _positions(end) == _positions(start)
    same = shows and (end.final, end.plan, end.sources) == (start.final, start.plan, start.sources)
    goes_on = same and progress.get("real", -1) <= start.feedback
    peeks = end.peeks if goes_on else end.peeks + shows
    return replace(end, peeks=peeks, peek=peeks if shows else 0)


def _positions(offset: Offset) -> dict[str, Position]:
    return {name: entry.position for name, entry in offset.sources.items()}


def with_frontiers(sources: Mapping[str, SourceOffset], notes: Mapping[str, SourceProgress]) -> dict[str, SourceOffset]:
    """The offsets with the frontiers that the last batch reached, for the readers."""
    return {
        name: replace(entry, floor=notes[name]["floor"], top=notes[name]["top"]) if name in notes else entry
        for name, entry in sources.items()
    }
