"""The Kafka connector: records of all partitions of a topic in one order, which the log of slices keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.kafka_client import check_client_options, kafka
from tidemill.runtime.secrets import check_secret
from tidemill.runtime.sources.columns import arrow_schema
from tidemill.runtime.sources.connector import Chunk, Position, Progress, Range
from tidemill.runtime.sources.kafka.avro import REGISTRY, SCHEMA
from tidemill.runtime.sources.kafka.decode import decode_messages
from tidemill.runtime.sources.kafka.fetch import fetch, records_gone
from tidemill.runtime.sources.kafka.metadata import metadata_columns
from tidemill.runtime.sources.kafka.slices import Slice, SliceLog
from tidemill.runtime.sources.kafka.slicing import TimeCuts, cut_evenly
from tidemill.runtime.sources.kafka.topic import Topic
from tidemill.runtime.sources.records import gather, make_chunk, position_text, refuse
from tidemill.runtime.thresholds import sizes

EARLIEST, LATEST = "earliest", "latest"


class Kafka:
    """Positions are {"slice": n}: everything in the slices before number n."""

    def __init__(self, spec: SourceSpec, directory: str) -> None:
        kafka()  # the error of a missing package is better than that of the first call
        arrow_schema(spec.columns)
        if spec.format is None:
            spec = replace(spec, format="json")
        self.spec = spec
        _check(spec)
        self._topic = Topic(spec)
        self._log = SliceLog(directory)
        self._cuts = TimeCuts()
        self._promised = 0

    def check_topic(self) -> None:
        """Refuse a topic that does not exist, or brokers that do not answer."""
        self._topic.partitions()

    def initial(self) -> Position:
        return {"slice": 0}

    def latest(self, start: Position, max_rows: int | None, live: bool, now_us: int) -> Progress:
        self._promised = max(self._promised, now_us)
        first = int(start["slice"])
        self._log.load()
        self._log.check(first)
        wanted = None if max_rows is None else max(max_rows, 1)
        rest = False
        if wanted is None or self._log.rows - self._log.base(first) < wanted:
            try:
                rest = self._extend(first, wanted)
            except SourceProblem as problem:
                # A live source waits for its brokers; a run to the end of a topic cannot say where that is.
                if not live or problem.code != "TM420":
                    raise
        end = self._log.end_within(first, wanted)
        exhausted = end == len(self._log) and not rest
        clock = self._promised if exhausted else self._log.arrival_from(end)
        return Progress({"slice": end}, exhausted, None if self.spec.timestamp else clock)

    def _extend(self, first: int, wanted: int | None) -> bool:
        """Append slices until a batch is full; whether there is more than that."""
        partitions = self._topic.partitions()
        reach = self._topic.ends(partitions)
        self._log.append(lambda: self._find_begin(reach))
        self._check_kept(reach)
        while True:
            left = sum(reach[p] - self._log.ends[p] for p in reach)
            room = None if wanted is None else wanted - (self._log.rows - self._log.base(first))
            if not left or (room is not None and room <= 0):
                return left > 0
            self._log.append(partial(self._find_slices, reach, room))

    def _find_begin(self, reach: dict[int, int]) -> list[dict[str, Any]]:
        """Where partitions begin that were not there before: at first as `start` says, later with all they have."""
        new = {p: end for p, end in reach.items() if p not in self._log.begin}
        if not new and self._log.is_begun:
            return []
        start = EARLIEST if self._log.is_begun else self.spec.origin.get("start", EARLIEST)
        if start == LATEST:
            begin = new
        elif start == EARLIEST:
            begin = self._topic.starts(new) if new else {}
        else:
            begin = self._topic.at_time(new, -(-int(start) // 1000)) if new else {}
        return [{"begin": begin}]

    def _find_slices(self, reach: dict[int, int], room: int | None) -> list[dict[str, Any]]:
        """At least one more slice."""
        rows = sizes.kafka_slice if room is None else min(sizes.kafka_slice, room)
        ends = {p: self._log.ends[p] for p in reach}
        behind = [p for p in reach if ends[p] < reach[p]]
        if len(behind) > 1 and self.spec.timestamp is not None:
            parts = list(self._cuts.next_slice(ends, reach, rows, partial(self._topic.at_time, reach)))
        else:
            upto = reach
            if room is not None:  # no more than this batch needs: the cut of the rest may be better later
                upto = {p: min(end, ends[p] + room) for p, end in reach.items()}
            parts = list(cut_evenly(ends, upto, rows))
        arrival = max(self._log.arrival, self._promised)
        return [{"parts": part, "at": arrival} for part in parts if part]

    def _check_kept(self, reach: dict[int, int]) -> None:
        """A topic that ends before what was read is another one with the same name."""
        for partition, end in self._log.ends.items():
            if reach.get(partition, -1) < end:
                raise SourceProblem(
                    "TM421",
                    f'the topic of source "{self.spec.name}" is not the one that was read',
                    detail=f"partition {partition} ends at offset {reach.get(partition, 0)}, {end} were read",
                    hint="RESTART SOURCE reads a topic that was made anew",
                )

    def split(self, start: Position, end: Position, parts: int) -> list[Range]:
        first, last = int(start["slice"]), int(end["slice"])
        slices = self._log.between(first, last)
        if not slices:
            return []
        count = 1 if self.spec.timestamp else max(1, min(parts, len(slices)))
        cuts = [len(slices) * i // count for i in range(count + 1)]
        return [_range(slices[a:b]) for a, b in pairwise(cuts)]

    def read(self, piece: Range) -> Iterator[Chunk]:
        return gather(self._chunks([Slice.from_list(data) for data in piece.detail["slices"]]))

    def _chunks(self, slices: list[Slice]) -> Iterator[Chunk]:
        for one, messages in fetch(self.spec, slices):
            yield self._chunk(one, messages)

    def _chunk(self, one: Slice, messages: list[Any]) -> Chunk:
        found = decode_messages(self.spec, messages)
        bad = sorted(found.bad.items())
        if bad and self.spec.on_error == "fail":
            message = messages[bad[0][0]]
            raise refuse(self.spec, bad[0][1], f"partition {message.partition()}, offset {message.offset()}")
        aside = [
            (
                reason,
                messages[i].value() or messages[i].key() or b"",
                position_text(partition=messages[i].partition(), offset=messages[i].offset()),
            )
            for i, reason in bad
        ]
        numbers, arrived = one.base + found.index, partial(np.full, len(found.index), one.arrival, np.int64)
        return make_chunk(found.table, lambda: numbers, arrived, aside, found.undeclared)

    def trim(self, committed: Position) -> None:
        """Forget slices that were read for good, when there are many; the records belong to the topic and stay."""
        keep_from = int(committed["slice"]) - sizes.kafka_kept_slices
        if keep_from - self._log.first > sizes.kafka_kept_slices:
            self._log.forget(keep_from)

    def why_gone(self) -> str | None:
        """Kafka may have deleted records that were read, or the log does not list them any more."""
        self._log.load()
        if self._log.first:
            return "the list of its first slices is not kept any more"
        starts = self._topic.starts(self._log.begin) if self._log.begin else {}
        gone = [p for p, begin in self._log.begin.items() if starts[p] > begin and self._log.ends[p] > begin]
        return records_gone(self.spec, gone[0], self._log.begin[gone[0]]).message if gone else None

    def order(self, position: Position) -> tuple[int, ...]:
        return (int(position["slice"]),)

    def portion(self, start: Position, end: Position, max_rows: int) -> Position:
        place = self._log.end_within(int(start["slice"]), max(max_rows, 1))
        return {"slice": place} if place < int(end["slice"]) else end

    def share(self, position: Position, end: Position) -> float:
        return self._log.base(int(position["slice"])) / max(self._log.base(int(end["slice"])), 1)


def _range(slices: list[Slice]) -> Range:
    detail = {"slices": [one.to_list() for one in slices]}
    return Range({"slice": slices[0].n}, {"slice": slices[-1].n + 1}, None, detail)


def _check(spec: SourceSpec) -> None:
    """Refuse options of which no row can be made."""
    check_client_options(spec.options)
    if "registry_login" in spec.options:
        check_secret("registry_login", spec.options["registry_login"])
    declared = {column.name.lower() for column in spec.columns}
    taken = metadata_columns(spec)
    for option, name in taken.items():
        if name.lower() not in declared:
            raise SourceProblem("TM407", f'{option}: there is no column "{name}"', hint="declare it with its type")
    if spec.format == "debezium" and spec.operation is None:
        raise SourceProblem(
            "TM407",
            "envelopes of Debezium say what was done with a row, and no column takes it",
            hint="declare a column for it: op VARCHAR, and operation = 'op'",
        )
    if spec.format == "avro" and (SCHEMA in spec.options) == (REGISTRY in spec.options):
        raise SourceProblem(
            "TM407",
            "format avro needs a schema",
            hint="schema = 'orders.avsc' for one schema, or registry = 'http://…' for a schema registry",
        )
    if SCHEMA in spec.options:
        try:
            json.loads(str(spec.options[SCHEMA]))
        except ValueError as error:
            raise SourceProblem("TM407", "schema is not an Avro schema", detail=str(error)) from None
