"""The workloads of the page and what is changed of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import data, packets
from benchmarks.joins import streams
from benchmarks.neighbours.inputs import LATENESS_S, out_of_order, varied, with_more_groups, with_texts
from benchmarks.neighbours.reasons import LIVE, SMALL
from benchmarks.peers import workloads
from benchmarks.peers.mixture import mixed
from benchmarks.throughput.questions import EVERY, KEPT


@dataclass(frozen=True)
class Asked:
    """How a workload's views are written: another predicate, another aggregate (both may be empty)."""

    predicate: str = ""
    maximum: str = ""

    def where(self, own: str | None = None) -> str:
        """
        >>> Asked("a > 1").where("b < 2 OR c"), Asked().where(), Asked("a > 1").where()
        (' WHERE (b < 2 OR c) AND a > 1', '', ' WHERE a > 1')
        """
        both = [f"({own})" if self.predicate and own else own, self.predicate]
        found = " AND ".join(p for p in both if p)
        return f" WHERE {found}" if found else ""


@dataclass(frozen=True)
class Work:
    """A workload: the folders of its sources by name, their columns, the statements of its streams and views."""

    title: str
    folders: Callable[[int], dict[str, str]]  # of this many rows
    columns: dict[str, str]
    key: str  # one of which there can be more
    texts: tuple[str, ...]  # keys that can be texts
    views: Callable[[Asked, int], list[str]]  # with this many queries, where that can be said
    predicate: str = "len > 45"
    maximum: str = ", max(len) AS greatest"
    stream_key: str = ""


@dataclass(frozen=True)
class Change:
    """One thing that is changed: how views are written, the input, the batches; `views` makes other views of them."""

    title: str
    asked: Callable[[Work], Asked] = lambda work: Asked()
    input: Callable[[Work, str], str] = lambda work, folder: folder
    texts: bool = False
    options: str = ""
    views: Callable[[list[str]], list[str]] = lambda views: views


CHANGES = {
    "predicate": Change("a predicate added to every query", lambda work: Asked(predicate=work.predicate)),
    "MAX": Change("a MAX added to every query", lambda work: Asked(maximum=work.maximum)),
    "texts": Change(
        "texts as keys", input=lambda work, folder: varied(folder, "texts", with_texts(work.texts)), texts=True
    ),
    "disorder": Change(
        "0.1 % of the rows up to 2 s out of order",
        input=lambda work, folder: varied(folder, "disorder", out_of_order),
        options=f", lateness = {LATENESS_S}",
    ),
    "groups": Change(
        "ten times the groups", input=lambda work, folder: varied(folder, "groups", with_more_groups(work.key))
    ),
    "small batches": Change(f"{SMALL:,} rows a batch", options=f", batch_rows = {SMALL}"),
    "live": Change(f"{LIVE:,} rows a batch, a second of the trace", options=f", batch_rows = {LIVE}"),
}


def _trace(rows: int) -> dict[str, str]:
    return {"S": packets.trace(rows, 4)}


def _windows(queries: tuple[workloads.Query, ...]) -> Callable[[Asked, int], list[str]]:
    def views(asked: Asked, count: int) -> list[str]:
        return [
            f"CREATE RSTREAM VIEW {q.name} AS SELECT {q.by}, count(*) AS n, sum(len) AS total{asked.maximum} FROM S"
            f" [RANGE {q.range} SECONDS SLIDE {q.slide} SECONDS]{asked.where(q.predicate)} GROUP BY {q.by}"
            for q in queries
        ]

    return views


def _many(asked: Asked, count: int) -> list[str]:
    return _windows(workloads.drawn(count, 1, 40))(asked, count)


def _mixture(asked: Asked, count: int) -> list[str]:
    return [q.statement(asked.maximum, asked.where(q.predicate)) for q in mixed(count)]


def _joined(asked: Asked, count: int) -> list[str]:
    window = f"[RANGE {streams.SECONDS} SECONDS SLIDE {streams.SECONDS} SECONDS]"
    more = f" AND {asked.predicate}" if asked.predicate else ""
    return [
        f"CREATE RSTREAM VIEW j AS SELECT A.sip, sum(A.len) AS s, count(*) AS n{asked.maximum} FROM PacketsA AS A"
        f" {window}, PacketsB AS B {window} WHERE A.sip = B.sip{more} GROUP BY A.sip"
    ]


def _pair(sips: int) -> Callable[[int], dict[str, str]]:
    def folders(rows: int) -> dict[str, str]:
        folder = streams.streams(rows // 20, 10, sips, 4)
        return {name: os.path.join(folder, name) for name in streams.NAMES}

    return folders


def _counts(kind: str, window: bool) -> Callable[[Asked, int], list[str]]:
    def views(asked: Asked, count: int) -> list[str]:
        every = f"[RANGE {EVERY} SECONDS SLIDE {EVERY} SECONDS]" if window else f"SYNC EVERY {EVERY} SECONDS"
        return [
            f"CREATE {kind} VIEW v AS SELECT k, count(*) AS n{asked.maximum} FROM S {every}{asked.where(KEPT)}"
            " GROUP BY k"
        ]

    return views


def _hot(asked: Asked, count: int) -> list[str]:
    return [f"CREATE STREAMED VIEW v AS SELECT RoomID, Temperature FROM S{asked.where('Temperature > 80')}"]


def _warmest(asked: Asked, count: int) -> list[str]:
    return [
        f"CREATE STREAMED VIEW v AS SELECT Building, count(*) AS n{asked.maximum} FROM S SYNC EVERY 10 SECONDS"
        f"{asked.where()} GROUP BY Building"
    ]


_PACKET = {"sip": "INT", "dip": "INT", "sp": "INT", "dp": "INT", "len": "INT", "ts": "TIMESTAMP"}
_LENGTH = {"sip": "INT", "len": "INT", "ts": "TIMESTAMP"}
_COUNTED = {"k": "INT", "proto": "INT", "len": "INT", "ts": "TIMESTAMP"}
_ROOM = {"RoomID": "INT", "Building": "INT", "Temperature": "INT", "ts": "TIMESTAMP"}
_JOIN = {"predicate": "A.len > 45", "maximum": ", max(B.len) AS greatest"}
WORKS = {
    **{
        name: Work(work.title, _trace, _PACKET, "sip", ("sip", "dip"), _windows(work.queries))
        for name, work in workloads.WORKS.items()
    },
    "W5": Work("many queries as in Table II of paper 003", _trace, _PACKET, "sip", ("sip", "dip"), _many),
    "mixture": Work("many unlike queries", _trace, _PACKET, "sip", ("sip", "dip"), _mixture),
    "J1 sparse": Work(
        "a join of windows with few partners", _pair(300_000), _LENGTH, "sip", ("sip",), _joined, **_JOIN
    ),
    "J1 dense": Work("the same with many", _pair(500), _LENGTH, "sip", ("sip",), _joined, **_JOIN),
    "refreshed": Work(
        "a count refreshed every 10 s",
        lambda rows: {"S": data.packets(rows, 4)},
        _COUNTED,
        "k",
        ("k",),
        _counts("STREAMED", False),
    ),
    "windows": Work(
        "counts of tumbling windows",
        lambda rows: {"S": data.packets(rows, 4)},
        _COUNTED,
        "k",
        ("k",),
        _counts("RSTREAM", True),
    ),
    "tagger": Work(
        "rooms above 80, each report replaces the one before",
        lambda rows: {"S": data.readings(rows, 200, 1000)},
        _ROOM,
        "RoomID",
        ("RoomID",),
        _hot,
        predicate="Building < 18",
        maximum="",
        stream_key=" KEY RoomID",
    ),
    "keyed count": Work(
        "rooms of each building, each report replaces the one before",
        lambda rows: {"S": data.readings(rows, 200, 1000)},
        _ROOM,
        "RoomID",
        ("RoomID",),
        _warmest,
        predicate="Temperature > 75",
        maximum=", max(Temperature) AS hottest",
        stream_key=" KEY RoomID",
    ),
}


def _with_one(query: str) -> Callable[[list[str]], list[str]]:
    """The views with this query in the place of the last one."""
    return lambda views: [*views[:-1], f"CREATE RSTREAM VIEW unlike AS SELECT {query.format(_WINDOW)}"]


_WINDOW = "[RANGE 120 SECONDS SLIDE 60 SECONDS]"
# One query of many that is unlike the others must not slow them down.
UNLIKE = {
    "MAX": Change(
        "one query has MAX", views=_with_one("sip, count(*) AS n, max(len) AS greatest FROM S {} GROUP BY sip")
    ),
    "expression": Change(
        "one has an expression as its key",
        views=_with_one("sip % 100 AS k, count(*) AS n FROM S {} GROUP BY sip % 100"),
    ),
    "two columns": Change(
        "one has a predicate on two columns",
        views=_with_one("sip, count(*) AS n, sum(len) AS total FROM S {} WHERE sp < dp GROUP BY sip"),
    ),
    "disorder": CHANGES["disorder"],
}
UNLIKE_WORK = WORKS["W5"]
