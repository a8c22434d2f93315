"""What the optimizer emits and the runtime interprets: plain data, versioned, JSON in and out.

Operators are listed in an order in which every input comes before its reader. `reader` operators run
beside the source and are stateless; `stage` operators run in a shard. They meet at ports:

- an exchange carries a reader operator's output to shards within the same micro-batch;
- a loop carries a stage operator's output back through the outlet into the next micro-batch, which is how
  a plan of any depth runs in one fixed Spark topology.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from tidemill.plan.sources import Column, Schema, SourceSpec

FOREVER = 1 << 62  # a frontier that will never be passed: nothing more can come
SEALED_ROWS = 16_384  # fewer rows of one look cost less in a table than a file of their own does
BEGINNING = -(1 << 62)
CLOCK = "@clock"  # what clockStr reads: the frontier of all sources
OPERATOR_SECONDS = 900.0

Route = Literal["hash", "all", "one", "any"]


@dataclass(frozen=True)
class Op:
    """One operator: what it is, which operators or ports it reads, what rows come out."""

    id: str
    kind: str
    inputs: tuple[str, ...]
    schema: Schema
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HotKeys:
    """Keys of an edge that have no home, by the hash of `Exchange.keys`: rows of a `spread` one go to shards by the
    hash of `columns`, rows of a `copied` one to every shard.
    """

    columns: tuple[str, ...]
    spread: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """An edge from operator `source_op` to port `port`, split by `route` on `keys`.

    `origin` says whose frontier the port follows: 'source:NAME', 'seed:PORT' or 'loop'. `hot` are exceptions of a
    split by hash.
    """

    port: str
    source_op: str
    route: Route
    keys: tuple[str, ...] = ()
    origin: str = "loop"
    hot: HotKeys | None = None


@dataclass(frozen=True)
class Output:
    """A view's changes leave the stages at operator `op`; if it `grows`, its rows only ever come."""

    view: str
    op: str
    grows: bool = False


@dataclass(frozen=True)
class Physical:
    """One version of the whole plan."""

    version: int
    unit_us: int
    shards: tuple[int, ...]
    sources: tuple[SourceSpec, ...] = ()
    reader: tuple[Op, ...] = ()
    stage: tuple[Op, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    loops: tuple[Exchange, ...] = ()
    outputs: tuple[Output, ...] = ()
    seeds: tuple[tuple[str, str], ...] = ()  # (reader operator, view): the view's contents enter there once
    operator_memory: int = 0  # bytes that a reader or a shard may take in a batch; 0: the usual amount
    operator_seconds: float = OPERATOR_SECONDS  # that one operator may take; 0: for ever
    sealed_rows: int = SEALED_ROWS  # from so many of one look on, a shard writes rows that grow to a file; 0: never

    def to_json(self) -> str:
        """Stable text, a line for each operator and edge; `from_json` is its inverse."""
        found = sorted(_fields(self).items())
        return "{\n" + ",\n".join(f'"{name}": {_lines(value)}' for name, value in found) + "\n}\n"

    @staticmethod
    def from_json(text: str) -> Physical:
        return Physical.from_dict(json.loads(text))

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Physical:
        """The plan that `to_json` wrote; other keys are no part of it."""
        return Physical(
            version=data["version"],
            unit_us=data["unit_us"],
            shards=tuple(data["shards"]),
            sources=tuple(SourceSpec.from_dict(s) for s in data["sources"]),
            reader=tuple(_op(o) for o in data["reader"]),
            stage=tuple(_op(o) for o in data["stage"]),
            exchanges=tuple(_exchange(e) for e in data["exchanges"]),
            loops=tuple(_exchange(e) for e in data["loops"]),
            outputs=tuple(Output(**o) for o in data["outputs"]),
            seeds=tuple((p, v) for p, v in data["seeds"]), sealed_rows=data.get("sealed_rows", SEALED_ROWS),
            operator_memory=data.get("operator_memory", 0),
            operator_seconds=data.get("operator_seconds", OPERATOR_SECONDS),
        )


def _fields(value: Any) -> dict[str, Any]:
    """A dataclass as JSON has it."""
    return {f.name: getattr(value, f.name) for f in fields(value)}


_text = json.JSONEncoder(sort_keys=True, default=_fields).encode


def _lines(value: Any) -> str:
    return "[\n" + ",\n".join(map(_text, value)) + "\n]" if isinstance(value, tuple) and value else _text(value)


def _op(data: dict[str, Any]) -> Op:
    schema = tuple(Column(c["name"], c["type"]) for c in data["schema"])
    return Op(data["id"], data["kind"], tuple(data["inputs"]), schema, data["params"])


def _exchange(data: dict[str, Any]) -> Exchange:
    hot = data.get("hot")
    return Exchange(data["port"], data["source_op"], data["route"], tuple(data["keys"]), data["origin"],
                    hot and HotKeys(*(tuple(hot[name]) for name in ("columns", "spread", "copied"))))
