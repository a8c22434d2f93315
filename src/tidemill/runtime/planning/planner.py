"""Decides what the next micro-batch reads: positions of every source, the plan version, what came round.

An offset is everything a replay needs to do the same again (`checkpoint/offsets.py`). The planner takes and returns
offsets in the form in which Spark logs them; nothing else here depends on Spark.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace

from tidemill.plan.below import Below
from tidemill.plan.physical import BEGINNING, Physical
from tidemill.plan.sources import SITE, SourceSpec
from tidemill.runtime.checkpoint.offsets import Logged, Offset, SourceOffset, decode_offset, read_offset, sign_offset
from tidemill.runtime.checkpoint.progress import first_offset
from tidemill.runtime.integrity import missing
from tidemill.runtime.messages.assignments import Assignment, Work, spec_of
from tidemill.runtime.messages.batch_progress import BatchProgress, SourceProgress
from tidemill.runtime.messages.control import Control, PreviewNote
from tidemill.runtime.messages.ticks import OVER, OVER_FOR_GOOD, BatchNote, SourceNote
from tidemill.runtime.paths import Paths, load_plan, read_part
from tidemill.runtime.planning.batch_size import Portion, rows_to_take
from tidemill.runtime.planning.next_offset import sheds, show_end, with_frontiers
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

    def initial(self) -> Logged:
        """Before anything was read, or where a checkpoint goes on from another one."""
        found = first_offset(self.paths)
        return Offset(batch=-1).encode() if found is None else found

    def latest(self, logged: Logged) -> Logged:
        """What is there now; `logged` itself when nothing is new, because Spark compares the texts of offsets.

        A plan that came meanwhile is taken at once: its new views see all that came after the statement that made them.
        """
        start = read_offset(self.paths, self.paths.checkpoint, logged)
        while True:
            control = self._control()
            end = self._latest(start, control)
            if self._control()["plan"] == control["plan"]:
                return logged if end is start else end.encode()

    def _latest(self, start: Offset, control: Control) -> Offset:
        plan = load_plan(self.paths.plan(control["plan"]))
        live = control["mode"] == "live"
        found: BatchProgress | None = read_part(self.paths, self.paths.progress)
        progress: BatchProgress = found or {"feedback": -1, "sources": {}}
        notes = progress["sources"]
        self.resting = finished = control["mode"] == "resting" or (not live and start.final == control["run"])
        sources, final, closes = dict(start.sources), start.final, start.closes
        if not finished:
            previews = {} if live else control.get("previews", {})
            exhausted = self._advance_all(plan, start, sources, live, notes, previews)
            self._pass_time(plan, start.sources, sources, progress)
            if not live:
                self._note_ends(plan, sources, OVER_FOR_GOOD if control.get("closes") else OVER)
            if not live and exhausted:
                final = control["run"]
                closes = control["run"] if control.get("closes") else closes
        known = {*control["sources"], *(spec.name for spec in plan.sources)}
        self._forget_others(known)
        end = replace(
            start,
            plan=plan.version,
            feedback=max(start.feedback, progress["feedback"]),
            final=final,
            closes=closes,
            sources={name: entry for name, entry in sorted(sources.items()) if name in known},
        )
        if end != start:
            end = show_end(start, end, progress, live and self._is_quiet(end, notes))
        elif live and self._is_quiet(end, notes):
            end = replace(end, peek=end.peeks + 1, peeks=end.peeks + 1)
        else:
            return start
        end = replace(end, sources=with_frontiers(end.sources, notes))
        return sign_offset(end, start, progress.get("batch"), self.paths.database)

    def _forget_others(self, known: set[str]) -> None:
        """Drop what is kept of sources that are neither registered nor in the plan."""
        for kept in (self.connectors, self.progressed, self.portions):
            for name in kept.keys() - known:
                kept.pop(name)

    def _is_quiet(self, end: Offset, notes: Mapping[str, SourceProgress]) -> bool:
        """Whether no rows have come for a moment, and the newest times are open and not shown by a batch yet."""
        shown = end.peek or not any(note["top"] >= note["floor"] for note in notes.values())
        return not shown and time.monotonic() - max(self.progressed.values(), default=0) >= self.quiet_s

    def _pass_time(
        self,
        plan: Physical,
        before: Mapping[str, SourceOffset],
        sources: dict[str, SourceOffset],
        progress: BatchProgress,
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
            if was and was.position == entry.position and was.clock is not None and entry.clock is not None:
                # A table that was read to its end has no time to pass.
                # Another site sends its time when it is waited for, in steps of its own.
                least = 1 if name in delivered else CLOCK_STEP_US
                steps = entry.clock - was.clock >= least and not entry.done
                is_awaited = was.clock <= awaited_there.get(name, BEGINNING)
                if not (steps and (is_awaited or awaited.passes(name, was.clock, entry.clock, waits, still))):
                    sources[name] = replace(entry, clock=was.clock)
        for together in awaited.together:
            silent = self._silent([spec_of(plan, name) for name in together], sources)
            known = max(before[name].silent if name in before else 0 for name in together)
            top = max(notes[name]["top"] if name in notes else BEGINNING for name in together)
            if silent > known and not any(
                awaited.passes(name, top + known + 1, top + silent + 1, waits, still) for name in together
            ):
                silent = known
            for name in together:
                sources[name] = replace(sources[name], silent=silent)

    def _silent(self, together: list[SourceSpec], sources: Mapping[str, SourceOffset]) -> int:
        """For how long sources with event times have all been without rows beyond their timeouts, in steps; 0 where one
        has rows. Meanwhile event time passes like wall-clock time.
        """
        if not all(sources[s.name].idle for s in together):
            return 0
        patience = max(s.idle_us or 0 for s in together)
        silent = int((time.monotonic() - max(self.progressed[s.name] for s in together)) * 1e6) - patience
        step = max(CLOCK_STEP_US, patience // 2)
        return max(silent, 0) // step * step

    def assignments(self, before: Logged, after: Logged) -> list[Assignment]:
        """The reader partitions of the batch from one offset to the next: at most one for each core, at least one."""
        start = read_offset(self.paths, self.paths.checkpoint, before)
        batch = None if start.batch is None else start.batch + 1
        end = read_offset(self.paths, self.paths.checkpoint, after, batch)
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
            for b in range(start.feedback + 1, end.feedback + 1)
            if b == end.feedback or os.path.exists(self.paths.feedback_notes(b))
        ]
        # The first batch after a start looks for what attempts that never committed left behind.
        sweep, self.fresh = self.fresh, False
        note = BatchNote(
            batch=end.batch,
            offset=end.sum,
            sweep=sweep,
            final=end.final if end.final != start.final else 0,
            closes=end.closes != start.closes,
            peek=end.peek,
            sources={name: _source_note(entry) for name, entry in end.sources.items()} | self._seconds(plan, end),
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
        if again and decode_offset(again["end"]) == end:
            return again["plan"], again["skip"]
        return end.plan, []

    def commit(self, end: Logged) -> None:
        """Everything up to `end` is done for good: sources may drop what they kept for a replay."""
        for name, position in needed_places(decode_offset(end), self.connectors):
            self.connectors[name].trim(position)

    def _control(self) -> Control:
        """The control file, which the engine writes."""
        found: Control | None = read_part(self.paths, self.paths.control)
        if found is None:
            raise missing(
                self.paths.control,
                "it was removed while the job ran",
                hint="stop() and start(), which write it anew; nothing is lost",
            )
        return found

    def _connector(self, spec: SourceSpec) -> Connector:
        if spec.name not in self.connectors:
            self.connectors[spec.name] = open_connector(spec, self.paths.source(spec.origin_name))
        return self.connectors[spec.name]

    def _advance_all(
        self,
        plan: Physical,
        start: Offset,
        sources: dict[str, SourceOffset],
        live: bool,
        notes: Mapping[str, SourceProgress],
        previews: Mapping[str, PreviewNote],
    ) -> bool:
        """Move all sources forward, first readings first, but those that feed a full outbox; True when there is nothing
        more at this moment.
        """
        exhausted: list[bool] = []
        self._over: set[str] = set()
        held_back = self._held_back(plan, sources)
        for spec in sorted(plan.sources, key=lambda s: s.rereads is not None):
            name, note = spec.name, notes.get(spec.name)
            if name in held_back:
                exhausted.append(False)
                continue
            if spec.rereads is not None:
                exhausted.append(self._advance_second(plan, spec, start, sources, live, note))
                continue
            exhausted.append(self._advance(plan, spec, sources, live, note, previews.get(name)))
            self._over |= {name} if exhausted[-1] else set()
            if not spec.static:
                jumps = note_jump(plan, spec, start.sources, sources[name], note)
                sources[name] = replace(sources[name], jumps=jumps)
        return all(exhausted)

    def _note_ends(self, plan: Physical, sources: dict[str, SourceOffset], over: int) -> None:
        """Which sources have ended: another site that still delivers may wait for what they say."""
        if any(spec.kind == SITE for spec in plan.sources):
            for spec in plan.sources:
                if spec.name in self._over and not spec.static:
                    sources[spec.name] = replace(sources[spec.name], over=over)

    def _held_back(self, plan: Physical, sources: Mapping[str, SourceOffset]) -> set[str]:
        """The sources below an outbox that is full."""
        full = full_edges(self.paths)
        ops = [output.op for output in plan.outputs if output.view in full] if full else []
        return {name for op in ops for name in Below(plan).sources(op)} & sources.keys()

    def _advance(
        self,
        plan: Physical,
        spec: SourceSpec,
        sources: dict[str, SourceOffset],
        live: bool,
        note: SourceProgress | None,
        previewed: PreviewNote | None,
    ) -> bool:
        """Move one source's entry forward; True when there is nothing more at this moment."""
        connector = self._connector(spec)
        entry = sources.get(spec.name)
        start = entry.position if entry else connector.initial()
        most = rows_to_take(self.portions, plan, spec, note, previewed)
        progress = connector.latest(start, most, live, self.clock.now())
        if not progress.exhausted and spec.kind == "files" and not spec.batch_rows:
            whole = connector.latest(start, most + most // REST_PART, live, self.clock.now())
            progress = whole if whole.exhausted else progress
        now = time.monotonic()
        if entry is None or progress.end != start:
            self.progressed[spec.name] = now
        silent = now - self.progressed.setdefault(spec.name, now)
        before = entry if entry is not None and progress.end == start else None
        seen = None
        if spec.ahead_us is not None:
            # When it came: a replay puts the same rows aside.
            seen = self.clock.now() if before is None or before.seen is None else before.seen
        sources[spec.name] = SourceOffset(
            progress.end,
            clock=None if spec.timestamp else progress.clock,
            done=spec.static and progress.exhausted,
            idle=live and spec.idle_us is not None and progress.exhausted and silent * 1e6 >= spec.idle_us,
            floor=entry.floor if entry else BEGINNING,
            top=entry.top if entry else BEGINNING,
            seen=seen,
            end=BEGINNING if progress.top is None else progress.top,
            shed=sheds(spec, before, live and not progress.exhausted),
        )
        return progress.exhausted

    def _advance_second(
        self,
        plan: Physical,
        spec: SourceSpec,
        start: Offset,
        sources: dict[str, SourceOffset],
        live: bool,
        note: SourceProgress | None,
    ) -> bool:
        """Move the second reading of a source forward; True when it has caught up."""
        rows = rows_to_take(self.portions, plan, spec, note, None)
        rows = min(rows, sizes.second_rows) if live else rows
        before = sources.get(spec.name)
        caught_up = advance_second(spec, self._connector(spec), start.sources, sources, rows)
        if before is None or before.position != sources[spec.name].position or spec.name not in self.progressed:
            self.progressed[spec.name] = time.monotonic()
        return caught_up

    def _seconds(self, plan: Physical, end: Offset) -> dict[str, SourceNote]:
        """How far the second readings of sources are."""
        return {
            s.name: replace(_source_note(end.sources.get(s.name)), second=describe_second(s, self._connector(s), end))
            for s in plan.sources
            if s.rereads is not None
        }

    def _pieces(self, spec: SourceSpec, start: Offset, end: Offset, parts: int) -> list[Work]:
        entry = end.sources.get(spec.name)
        if entry is None:
            return []
        connector = self._connector(spec)
        before = start.sources.get(spec.name)
        begin = before.position if before else connector.initial()
        if begin == entry.position:
            return []
        top, works = entry.top, []
        # Where some rows are not believed, the greatest time of a piece is known only when it has been read.
        for piece in connector.split(begin, entry.position, 1 if spec.ahead_us is not None else parts):
            works.append(Work(spec.name, piece, entry.floor, top, BEGINNING if entry.seen is None else entry.seen))
            top = max(top, piece.max_time) if piece.max_time is not None else top
        return works


def _source_note(entry: SourceOffset | None) -> SourceNote:
    if entry is None:
        return SourceNote()
    return SourceNote(
        done=entry.done,
        idle=entry.idle,
        clock=entry.clock,
        silent=entry.silent,
        shed=entry.shed,
        end=entry.end,
        over=entry.over,
        again=entry.jumps is not None,
    )
