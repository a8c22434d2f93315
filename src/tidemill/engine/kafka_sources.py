"""REGISTER SOURCE … FROM KAFKA: where reading begins, the Avro schema, and options that only such a source has."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tidemill.engine.postgres_sources import OPTIONS as OF_POSTGRES
from tidemill.engine.postgres_sources import POSTGRES
from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.kafka_client import OPTIONS as CLIENT
from tidemill.runtime.sources.kafka.avro import REGISTRY, SCHEMA
from tidemill.runtime.sources.kafka.connector import EARLIEST, LATEST, Kafka
from tidemill.runtime.sources.kafka.metadata import OPTIONS as METADATA

KAFKA = "kafka"
_OWN = {"start", SCHEMA, REGISTRY, "registry_login", *METADATA, *CLIENT}


def take_kafka_options(kind: str, options: dict[str, Any], origin: dict[str, Any]) -> None:
    """Bring the options of a topic into the form that the connector reads; refuse them for other kinds of sources."""
    given = sorted(_OWN & options.keys())
    if kind != KAFKA:
        given = [name for name in given if kind != POSTGRES or name not in OF_POSTGRES]
        if given:
            raise SourceProblem(
                "TM407", f"{given[0]} is an option of topics", hint="leave it out: this source is not read from Kafka"
            )
        return
    if "start" in options:
        origin["start"] = _start(options.pop("start"))
    if SCHEMA in options:
        options[SCHEMA] = _read_schema(str(options[SCHEMA]))


def check_kafka(spec: SourceSpec) -> None:
    """Refuse a topic that cannot be read: a wrong address or name is noticed now, not by a source that waits."""
    Kafka(spec, "").check_topic()


def _start(value: Any) -> str | int:
    """'earliest', 'latest', or the microseconds of a time of records."""
    if str(value).lower() in (EARLIEST, LATEST):
        return str(value).lower()
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        found = dt.datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise SourceProblem(
            "TM407",
            f'start: "{value}" is not a place to begin',
            hint="start = 'earliest', 'latest', or a time such as '2026-11-18 12:00:00'",
        ) from None
    moment = found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)
    return round(moment.timestamp() * 1_000_000)


def _read_schema(path: str) -> str:
    """The text of an Avro schema: it becomes part of the source, so that every worker has it."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise SourceProblem("TM407", f'schema: "{path}" cannot be read', detail=str(error)) from None
