"""The contract of a target, and what an upsert does to it.

The law: `write` of a batch that the target already has does nothing, and a batch is in it whole or not at all. So a
batch may be written again after any crash, and is in the target once.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidemill.errors import PlanProblem
from tidemill.runtime.targets.lake_files import LakeWriter

CHANGELOG, UPSERT, DEBEZIUM = "changelog", "upsert", "debezium"
TAG, STAMP, OLD = "TAG", "TS", "OLD"
DELETED = "-"


@dataclass(frozen=True)
class TargetKind:
    """The class of a kind of target as "module:class", its modes with the usual one first, and its options."""

    target: str
    modes: tuple[str, ...]
    example: str
    options: tuple[str, ...] = ()
    is_lake: bool = False  # workers can write its files


_HERE = "tidemill.runtime.targets"
_CLIENT = ("security", "mechanism", "username", "certificate", "ca", "private_key", "private_key_password")
KINDS = {
    "kafka": TargetKind(
        f"{_HERE}.kafka:KafkaTarget",
        (CHANGELOG, UPSERT, DEBEZIUM),
        "KAFKA 'localhost:9092' TOPIC 'answers'",
        (*_CLIENT, "password", "client_settings"),
    ),
    "postgres": TargetKind(
        f"{_HERE}.postgres:PostgresTarget",
        (UPSERT, CHANGELOG),
        "POSTGRES 'host=db dbname=shop' TABLE 'totals'",
        ("password",),
    ),
    "delta": TargetKind(f"{_HERE}.delta:DeltaTarget", (CHANGELOG, UPSERT), "DELTA '/lake/totals'", is_lake=True),
    "iceberg": TargetKind(
        f"{_HERE}.iceberg:IcebergTarget",
        (CHANGELOG, UPSERT),
        "ICEBERG 'shop.totals'",
        ("catalog", "warehouse", "password"),
        is_lake=True,
    ),
}


@dataclass(frozen=True)
class SinkSpec:
    """What a target needs of a sink: who it is, how it writes, where to, and the columns and key of its view."""

    id: str
    name: str
    kind: str
    mode: str
    place: dict[str, str]
    options: dict[str, Any]
    columns: tuple[str, ...]
    keys: tuple[str, ...] | None


class Target(Protocol):
    """`check` is called by CREATE SINK, without a look at the system."""

    def check(self) -> None: ...

    def write(self, log: pa.Table, batch: int) -> None:
        """Write one batch of presented changes: TAG, TS, columns, OLD."""

    def close(self) -> None: ...


def open_target(spec: SinkSpec, writer: LakeWriter | None = None) -> Target:
    """The target of a sink; nothing is connected yet. `writer` is what lakes write large batches with."""
    kind = KINDS[spec.kind]
    module, _, name = kind.target.partition(":")
    made = getattr(import_module(module), name)
    return cast(Target, made(spec, writer) if kind.is_lake else made(spec))


def mode_of(kind: str, name: str, given: str | None, has_key: bool) -> str:
    """The mode of a sink, checked."""
    modes = KINDS[kind].modes
    mode = modes[0] if given is None else given.lower()
    if mode not in modes:
        raise PlanProblem("TM211", f'mode "{given}" is not possible here', hint=f"one of {', '.join(modes)}")
    if mode in (UPSERT, DEBEZIUM) and not has_key:
        raise PlanProblem(
            "TM250",
            f'sink "{name}" cannot tell the rows of its view apart: the view has no key',
            detail=f"mode {mode} replaces and deletes rows by their key",
            hint="mode = 'changelog', or group the view by what identifies its rows",
        )
    return mode


@dataclass(frozen=True)
class Upserts:
    """What a batch leaves of each key that it touches: `rows` are new or replaced, `gone` are keys that are not there.

    `touched` is the keys of both.
    """

    rows: pa.Table
    gone: pa.Table
    touched: pa.Table


def fold(log: pa.Table, spec: SinkSpec) -> Upserts:
    """The last change of each key, in the order of the log."""
    keys = list(spec.keys or ())
    numbered = log.select(keys).append_column("__at", pa.array(np.arange(log.num_rows)))
    last = numbered.group_by(keys, use_threads=False).aggregate([("__at", "max")]).column("__at_max").combine_chunks()
    kept = log.take(pc.take(last, pc.sort_indices(last)))
    is_gone = pc.equal(kept.column(TAG), DELETED)
    return Upserts(
        kept.filter(pc.invert(is_gone)).select(list(spec.columns)), kept.filter(is_gone).select(keys), kept.select(keys)
    )
