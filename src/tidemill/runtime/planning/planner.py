"""Decides what the next micro-batch reads: positions of every source, the plan version, what came round.

An offset is everything a replay needs to do the same again. It holds the position, frontier and greatest time of each
source as known when the batch was planned, whether a source is idle, the plan version, and the last
feedback taken in; and whose it is (`offsets`). Nothing here depends on Spark.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any

from tidemill.plan.below import Below
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import ALWAYS, SHED, SHED_UPDATES, SITE, SourceSpec
from tidemill.runtime.checkpoint.offsets import Offset, check_offset, same_place, sign_offset
from tidemill.runtime.checkpoint.progress import first_offset
from tidemill.runtime.integrity import missing
from tidemill.runtime.messages.assignments import Assignment, Work, spec_of
from tidemill.runtime.messages.ticks import OVER, OVER_FOR_GOOD, BatchNote, SourceNote
from tidemill.runtime.paths import Paths, load_plan, read_part
from tidemill.runtime.planning.batch_size import Portion, rows_to_take
from tidemill.runtime.planning.second_readings import (
    advance_second,
    describe_second,
    in_step,
    needed_places,
    note_jump,
    second_pieces,
)
from tidemill.runtime.planning.time_batches import Awaited, Waits, held_sources
from tidemill.runtime.sites.limits import full_edges, sources_awaited
from tidemill.runtime.sources.clock import SteadyClock
from tidemill.runtime.sources.connector import Connector
from tidemill.runtime.sources.registry import open_connector
from tidemill.runtime.thresholds import sizes

REST_PART = 4  # what is left of files is taken with the batch before it if it is so small a part of that
CLOCK_STEP_US = 500_000  # time alone is worth a batch only so often: one costs some 0.2 s of two cores
QUIET_S = 1.0  # without rows until the newest times are shown


class Planner:
    """Plans micro-batches of one database; one object for each running Spark query."""

    def __init__(self, root: str, cores: int) -> None:
        self.paths = Paths(root)
        self.cores = max(1, cores)
        self.clock = SteadyClock()
        self.connectors: dict[str, Connector] = {}
        self.progressed: dict[str, float] = {}
        self.portions: dict[str, Portion] = {}
        self.fresh = True
        self.quiet_s = QUIET_S
        self.resting = False  # no batch begins until the control file changes
        self._awaited: tuple[int, Awaited] | None = None  # of a plan version

    def initial(self) -> Offset:
        """Before anything was read, or where a checkpoint goes on from another one."""
        found = first_offset(self.paths)
        if found is not None:
            return found
        return {"batch": -1, "closes": 0, "feedback": -1, "final": 0, "peek": 0, "peeks": 0, "plan": 0, "sources": {}}

    def latest(self, start: Offset) -> Offset:
        """What is there now; the same offset when nothing is new.

        A plan that came meanwhile is taken at once: its new views see all that came after the statement that made them.
        """
        check_offset(self.paths, self.paths.checkpoint, start)
        while True:
            control = self._control()
            end = self._latest(start, control)
            if self._control()["plan"] == control["plan"]:
                return end

    def _latest(self, start: Offset, control: dict[str, Any]) -> Offset:
        plan = load_plan(self.paths.plan(control["plan"]))
        live = control["mode"] == "live"
        progress = read_part(self.paths, self.paths.progress) or {"feedback": -1, "sources": {}}
        notes = progress["sources"]
        self.resting = finished = control["mode"] == "resting" or (not live and start["final"] == control["run"])
        end: Offset = {
            "closes": start.get("closes", 0),
            "feedback": max(start["feedback"], progress["feedback"]),
            "final": start["final"],
            "peek": start.get("peek", 0),
            "peeks": start.get("peeks", 0),
            "plan": plan.version,
            "sources": dict(start["sources"]),
        }
        if not finished:
            previews = {} if live else control.get("previews", {})
            exhausted = self._advance_all(plan, start, end, live, notes, previews)
            self._pass_time(plan, start["sources"], end["sources"], progress)
            if not live:
                self._note_ends(plan, end["sources"], OVER_FOR_GOOD if control.get("closes") else OVER)
            if not live and exhausted:
                end["final"] = control["run"]
                end["closes"] = control["run"] if control.get("closes") else end["closes"]
        known = {*control["sources"], *(spec.name for spec in plan.sources)}
        end["sources"] = {name: entry for name, entry in sorted(end["sources"].items()) if name in known}
        kept: tuple[dict[str, Any], ...] = (self.connectors, self.progressed, self.portions)
        for of_source in kept:
            for name in of_source.keys() - known:
                del of_source[name]
        if not same_place(end, start):
            self._peek(start, end, progress, live and self._is_quiet(end, notes))
        elif live and self._is_quiet(end, notes):
            end["peek"] = end["peeks"] = end["peeks"] + 1
        else:
            return start
        _refresh(end, notes)
        return sign_offset(end, start, progress.get("batch"), self.paths.database)

    def _is_quiet(self, end: Offset, notes: dict[str, Any]) -> bool:
        """Whether no rows have come for a moment, and the newest times are open and not shown by a batch yet."""
        shown = end["peek"] or not any(note["top"] >= note["floor"] for note in notes.values())
        return not shown and time.monotonic() - max(self.progressed.values(), default=0) >= self.quiet_s

    def _pass_time(
        self, plan: Physical, before: dict[str, Any], sources: dict[str, Any], progress: dict[str, Any]
    ) -> None:
        """Let time pass for sources without rows, at most every half second and only where something waits for it."""
        if self._awaited is None or self._awaited[0] != plan.version:
            self._awaited = plan.version, Awaited.by(plan)
        awaited, notes = self._awaited[1], progress["sources"]
        waits: Waits | None = found if isinstance(found := progress.get("waits"), dict) else None
        still = held_sources(plan, sources, notes)
        delivered = {spec.name for spec in plan.sources if spec.kind == SITE}
        awaited_there = sources_awaited(self.paths, plan)
        for name, entry in sources.items():
            was = before.get(name)
            if was and was["position"] == entry["position"] and "" not in (was["clock"], entry["clock"]):
                # A table that was read to its end has no time to pass.
                # Another site sends its time when it is waited for, in steps of its own.
                least = 1 if name in delivered else CLOCK_STEP_US
                steps = entry["clock"] - was["clock"] >= least and not entry["done"]
                is_awaited = was["clock"] <= awaited_there.get(name, BEGINNING)
                if not (steps and (is_awaited or awaited.passes(name, was["clock"], entry["clock"], waits, still))):
                    entry["clock"] = was["clock"]
        for together in awaited.together:
            silent = self._silent([spec_of(plan, name) for name in together], sources)
            known = max(before.get(name, {}).get("silent", 0) for name in together)
            top = max(notes.get(name, {}).get("top", BEGINNING) for name in together)
            if silent > known and not any(
                awaited.passes(name, top + known + 1, top + silent + 1, waits, still) for name in together
            ):
                silent = known
            for name in together:
                sources[name]["silent"] = silent

    def _silent(self, together: list[SourceSpec], sources: dict[str, Any]) -> int:
        """For how long sources with event times have all been without rows beyond their timeouts, in steps; 0 where one
        has rows. Meanwhile event time passes like wall-clock time.
        """
        if not all(sources[s.name]["idle"] for s in together):
            return 0
        patience = max(s.idle_us or 0 for s in together)
        silent = int((time.monotonic() - max(self.progressed[s.name] for s in together)) * 1e6) - patience
        step = max(CLOCK_STEP_US, patience // 2)
        return max(silent, 0) // step * step

    def _peek(self, start: Offset, end: Offset, progress: dict[str, Any], quiet: bool) -> None:
        """Note in the offset whether the batch shows provisional rows, as if the input ended with it: at the end of a
        run that leaves the newest times open or when it is `quiet`, and until rows come. `peeks` numbers these ends;
        the batch continues the end of the batch before only if there was no other feedback.
        """
        if end["final"] != start["final"]:
            shows = end["closes"] == start.get("closes", 0)
        else:
            shows = (quiet or bool(end["peek"])) and _positions(end) == _positions(start)
        known = ("final", "plan", "sources")
        same = shows and all(end[name] == start.get(name) for name in known)
        if not (same and progress.get("real", -1) <= start["feedback"]):
            end["peeks"] += shows
        end["peek"] = end["peeks"] if shows else 0

    def assignments(self, start: Offset, end: Offset) -> list[Assignment]:
        """The reader partitions of the batch (start, end]: at most one for each core, at least one."""
        check_offset(self.paths, self.paths.checkpoint, start)
        check_offset(self.paths, self.paths.checkpoint, end, start["batch"] + 1 if "batch" in start else None)
        version, skipped = self._again(end)
        plan = load_plan(self.paths.plan(version))
        lanes: list[list[Work]] = [[] for _ in range(self.cores)]
        for spec in plan.sources:
            skip = spec.name in skipped
            if spec.rereads is None:
                also = in_step(plan, spec.name, start, end)
                for lane, work in enumerate(self._pieces(spec, start, end, 1 if skip else self.cores)):
                    lanes[lane].append(replace(work, skip=skip, also=also))
            elif spec.name not in in_step(plan, spec.rereads, start, end):
                lanes[-1] += second_pieces(spec, self._connector(spec), start, end)
        # What has content is taken in by the next batch: only the last one can have any.
        taken = [
            b
            for b in range(start["feedback"] + 1, end["feedback"] + 1)
            if b == end["feedback"] or os.path.exists(self.paths.feedback_notes(b))
        ]
        # The first batch after a start looks for what attempts that never committed left behind.
        sweep, self.fresh = self.fresh, False
        note = BatchNote(
            batch=end.get("batch"),
            offset=end.get("sum"),
            sweep=sweep,
            final=end["final"] if end["final"] != start["final"] else 0,
            closes=end.get("closes", 0) != start.get("closes", 0),
            peek=end.get("peek", 0),
            sources={name: _source_note(entry) for name, entry in end["sources"].items()} | self._seconds(plan, end),
        )
        busy = [lane for lane in lanes if lane] or [[]]
        return [
            Assignment(i, version, tuple(lane), tuple(taken) if i == 0 else (), note) for i, lane in enumerate(busy)
        ]

    def _again(self, end: Offset) -> tuple[int, list[str]]:
        """The plan of a batch and the sources whose records it skips: as in its offset, unless the control file has
        the batch run again with others.
        """
        again = self._control().get("again")
        if again and again["end"] == end:
            return again["plan"], again["skip"]
        return end["plan"], []

    def commit(self, end: Offset) -> None:
        """Everything up to `end` is done for good: sources may drop what they kept for a replay."""
        for name, position in needed_places(end, self.connectors):
            self.connectors[name].trim(position)

    def _control(self) -> dict[str, Any]:
        """The control file, which the engine writes."""
        found = read_part(self.paths, self.paths.control)
        if found is None:
            raise missing(
                self.paths.control,
                "it was removed while the job ran",
                hint="stop() and start(), which write it anew; nothing is lost",
            )
        return dict(found)

    def _connector(self, spec: SourceSpec) -> Connector:
        if spec.name not in self.connectors:
            self.connectors[spec.name] = open_connector(spec, self.paths.source(spec.origin_name))
        return self.connectors[spec.name]

    def _advance_all(
        self, plan: Physical, start: Offset, end: Offset, live: bool, notes: dict[str, Any], previews: dict[str, Any]
    ) -> bool:
        """Move all sources forward, first readings first, but those that feed a full outbox; True when there is nothing
        more at this moment.
        """
        exhausted: list[bool] = []
        self._over: set[str] = set()
        held_back = self._held_back(plan, end["sources"])
        for spec in sorted(plan.sources, key=lambda s: s.rereads is not None):
            name, note = spec.name, notes.get(spec.name)
            if name in held_back:
                exhausted.append(False)
                continue
            if spec.rereads is not None:
                exhausted.append(self._advance_second(plan, spec, start, end, live, note))
                continue
            exhausted.append(self._advance(plan, spec, end["sources"], live, note, previews.get(name)))
            self._over |= {name} if exhausted[-1] else set()
            if not spec.static:
                end["sources"][name]["jumps"] = note_jump(plan, spec, start["sources"], end["sources"], note)
        return all(exhausted)

    def _note_ends(self, plan: Physical, sources: dict[str, Any], over: int) -> None:
        """Which sources have ended: another site that still delivers may wait for what they say."""
        if any(spec.kind == SITE for spec in plan.sources):
            for spec in plan.sources:
                if spec.name in self._over and not spec.static:
                    sources[spec.name]["over"] = over

    def _held_back(self, plan: Physical, sources: dict[str, Any]) -> set[str]:
        """The sources below an outbox that is full."""
        full = full_edges(self.paths)
        ops = [output.op for output in plan.outputs if output.view in full] if full else []
        return {name for op in ops for name in Below(plan).sources(op)} & sources.keys()

    def _advance(
        self,
        plan: Physical,
        spec: SourceSpec,
        sources: dict[str, Any],
        live: bool,
        note: dict[str, Any] | None,
        previewed: dict[str, Any] | None,
    ) -> bool:
        """Move one source's entry forward; True when there is nothing more at this moment."""
        connector = self._connector(spec)
        entry = sources.get(spec.name)
        start = entry["position"] if entry else connector.initial()
        most = rows_to_take(self.portions, plan, spec, note, previewed)
        progress = connector.latest(start, most, live, self.clock.now())
        if not progress.exhausted and spec.kind == "files" and not spec.batch_rows:
            whole = connector.latest(start, most + most // REST_PART, live, self.clock.now())
            progress = whole if whole.exhausted else progress
        now = time.monotonic()
        if entry is None or progress.end != start:
            self.progressed[spec.name] = now
        silent = now - self.progressed.setdefault(spec.name, now)
        clock: Any = progress.clock if progress.clock is not None and not spec.timestamp else ""
        idle = bool(live and spec.idle_us is not None and progress.exhausted and silent * 1e6 >= spec.idle_us)
        sources[spec.name] = {
            "clock": clock,
            "done": bool(spec.static and progress.exhausted),
            "floor": entry["floor"] if entry else BEGINNING,
            "idle": idle,
            "position": progress.end,
            "top": entry["top"] if entry else BEGINNING,
        }
        sources[spec.name] |= {} if progress.top is None else {"end": progress.top}
        before = entry if entry is not None and progress.end == start else None
        if spec.ahead_us is not None:
            # When it came: a replay puts the same rows aside.
            known = before.get("seen") if before is not None else None
            sources[spec.name]["seen"] = self.clock.now() if known is None else known
        sources[spec.name] |= _shedding(spec, before, live and not progress.exhausted)
        return progress.exhausted

    def _advance_second(
        self, plan: Physical, spec: SourceSpec, start: Offset, end: Offset, live: bool, note: dict[str, Any] | None
    ) -> bool:
        """Move the second reading of a source forward; True when it has caught up."""
        rows = rows_to_take(self.portions, plan, spec, note, None)
        rows = min(rows, sizes.second_rows) if live else rows
        before = end["sources"].get(spec.name, {}).get("position")
        caught_up = advance_second(spec, self._connector(spec), start["sources"], end["sources"], rows)
        if before != end["sources"][spec.name]["position"] or spec.name not in self.progressed:
            self.progressed[spec.name] = time.monotonic()
        return caught_up

    def _seconds(self, plan: Physical, end: Offset) -> dict[str, SourceNote]:
        """How far the second readings of sources are."""
        seconds = [spec for spec in plan.sources if spec.rereads is not None]
        return {
            s.name: replace(
                _source_note(end["sources"].get(s.name, {})), second=describe_second(s, self._connector(s), end)
            )
            for s in seconds
        }

    def _pieces(self, spec: SourceSpec, start: Offset, end: Offset, parts: int) -> list[Work]:
        entry = end["sources"].get(spec.name)
        if entry is None:
            return []
        connector = self._connector(spec)
        before = start["sources"].get(spec.name)
        begin = before["position"] if before else connector.initial()
        if begin == entry["position"]:
            return []
        top, works = entry["top"], []
        # Where some rows are not believed, the greatest time of a piece is known only when it has been read.
        for piece in connector.split(begin, entry["position"], 1 if spec.ahead_us is not None else parts):
            works.append(Work(spec.name, piece, entry["floor"], top, entry.get("seen", BEGINNING)))
            top = max(top, piece.max_time) if piece.max_time is not None else top
        return works


def _shedding(spec: SourceSpec, before: dict[str, Any] | None, overloaded: bool) -> dict[str, Any]:
    """Whether a batch drops updates, for the offset: a replay does what it says, whatever waits by then. `before` is
    the entry of a source that nothing is read of.
    """
    if SHED_UPDATES not in spec.options:
        return {}
    if before is not None:
        return {"shed": before.get("shed", False)}
    return {"shed": overloaded or spec.options.get(SHED) == ALWAYS}


def _positions(offset: Offset) -> dict[str, Any]:
    return {name: entry["position"] for name, entry in offset["sources"].items()}


def _refresh(end: Offset, notes: dict[str, Any]) -> None:
    """Write the frontiers that the last batch reached into the offset, for the readers."""
    for name, entry in end["sources"].items():
        known = notes.get(name)
        if known:
            end["sources"][name] = {**entry, "floor": known["floor"], "top": known["top"]}


def _source_note(entry: dict[str, Any]) -> SourceNote:
    clock = entry.get("clock", "")
    return SourceNote(
        done=bool(entry.get("done")),
        idle=bool(entry.get("idle")),
        clock=None if clock == "" else clock,
        silent=entry.get("silent", 0),
        shed=bool(entry.get("shed")),
        end=entry.get("end", BEGINNING),
        over=entry.get("over", 0),
        again=entry.get("jumps") is not None,
    )
