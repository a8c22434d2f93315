"""What the optimizer emits and the runtime interprets: plain data, versioned, JSON in and out.

Operators are listed in an order in which every input comes before its reader. `reader` operators run
beside the source and are stateless; `stage` operators run in a shard. Ports connect them:

- an exchange carries a reader operator's output to shards within the same micro-batch;
- a loop carries a stage operator's output back through the outlet into the next micro-batch, which is how
  a plan of any depth runs in one fixed Spark topology.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemill.plan.physical.base import Op
from tidemill.plan.physical.codec import decoder, encode, fields_of
from tidemill.plan.physical.kinds import decode_op, encode_op
from tidemill.plan.physical.sharing import Lfta
from tidemill.plan.sources import SourceSpec
from tidemill.plan.user_functions import UserFunction

FOREVER = 1 << 62  # a frontier that will never be passed: nothing more can come
SEALED_ROWS = 8_192  # fewer rows of one batch are cheaper in a table than in a separate file
BEGINNING = -(1 << 62)
CLOCK = "@clock"  # what clockStr reads: the frontier of all sources
OPERATOR_SECONDS = 900.0

Route = Literal["hash", "all", "one", "any"]


@dataclass(frozen=True)
class HotKeys:
    """Keys of an edge that no single shard owns, by the hash of `Exchange.keys`: rows of `spread` keys go to shards by
    the hash of `columns`, rows of `copied` keys to every shard.
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
    """A view's changes leave the stages at operator `op`; `append_only` when no row is ever taken back."""

    view: str
    op: str
    append_only: bool = field(default=False, metadata={"json": "grows"})


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
    operator_seconds: float = OPERATOR_SECONDS  # time limit of one operator in a batch; 0: none
    sealed_rows: int = SEALED_ROWS  # a shard writes at least this many append-only rows to a file; 0: never
    fast_paths_off: tuple[str, ...] = ()  # names of `runtime.fast_paths` that this plan does without
    functions: tuple[UserFunction, ...] = ()  # of the user, that expressions may call

    def lfta_of(self, source: str) -> Lfta | None:
        """The hash tables of a source's window aggregates in its readers, if there are any."""
        return next((op for op in self.reader if isinstance(op, Lfta) and op.source == source), None)

    def to_json(self) -> str:
        """Stable text, a line for each operator and edge; `from_json` is its inverse."""
        found = sorted(fields_of(self).items())
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
            reader=tuple(decode_op(o) for o in data["reader"]),
            stage=tuple(decode_op(o) for o in data["stage"]),
            exchanges=tuple(_exchange(e) for e in data["exchanges"]),
            loops=tuple(_exchange(e) for e in data["loops"]),
            outputs=tuple(_output(o) for o in data["outputs"]),
            seeds=tuple((p, v) for p, v in data["seeds"]),
            sealed_rows=data.get("sealed_rows", SEALED_ROWS),
            operator_memory=data.get("operator_memory", 0),
            operator_seconds=data.get("operator_seconds", OPERATOR_SECONDS),
            fast_paths_off=tuple(data.get("fast_paths_off", ())),
            functions=_functions(data.get("functions", ())),
        )


def _encode(value: Any) -> Any:
    return encode_op(value) if isinstance(value, Op) else encode(value)


_text = json.JSONEncoder(sort_keys=True, default=_encode).encode


def _lines(value: Any) -> str:
    return "[\n" + ",\n".join(map(_text, value)) + "\n]" if isinstance(value, tuple) and value else _text(value)


_exchange = decoder(Exchange)
_output = decoder(Output)
_functions = decoder(tuple[UserFunction, ...])
