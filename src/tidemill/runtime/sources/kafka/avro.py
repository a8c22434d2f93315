"""Avro records: with the schema that the source was registered with, or with a schema registry.

With a registry a value begins with a zero byte and the four bytes of the number of its schema.
"""

from __future__ import annotations

import io
import json
import struct
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.extras import load
from tidemill.runtime.secrets import read_secret
from tidemill.runtime.sources.columns import convert
from tidemill.runtime.sources.records import good_numbers
from tidemill.runtime.sources.text.decode import Decoded

REGISTRY, SCHEMA = "registry", "schema"  # options
ANSWER_S = 20.0  # a registry that takes longer counts as one that does not answer
_FRAME = struct.Struct(">bI")
_schemas: dict[tuple[str, int], Any] = {}  # by registry and number: a number never gets another schema


def decode_avro(spec: SourceSpec, values: Sequence[bytes]) -> Decoded:
    """The rows of Avro values; a field that no column is declared for is left out, a missing one is NULL."""
    library = load("fastavro", "kafka", "the format avro")
    own = library.parse_schema(json.loads(spec.options[SCHEMA])) if SCHEMA in spec.options else None
    records: list[dict[str, Any]] = []
    bad: dict[int, str] = {}
    for i, value in enumerate(values):
        try:
            records.append(_read(spec, library, own, value))
        except SourceProblem:
            raise
        except Exception as error:  # the library raises what its parts raise
            why = str(error) if isinstance(error, ValueError) else "its bytes do not fit"
            bad[i] = f"not a record of its Avro schema: {why}"[:200]
    index = good_numbers(len(values), bad)
    fields = [{key.lower(): value for key, value in record.items()} for record in records]
    raw = [_column([record.get(column.name.lower()) for record in fields]) for column in spec.columns]
    rows, reasons = convert(raw, spec.columns)
    bad |= {int(index[i]): reason for i, reason in reasons.items()}
    good = good_numbers(len(index), reasons)
    return Decoded(rows.take(pa.array(good)), index[good] if len(index) else np.empty(0, np.int64), bad)


def _read(spec: SourceSpec, library: Any, own: Any, value: bytes) -> dict[str, Any]:
    data = io.BytesIO(value)
    schema = own
    if schema is None:
        zero, number = _FRAME.unpack(data.read(_FRAME.size))
        if zero != 0:
            raise ValueError("it does not begin with the number of a schema")
        schema = _from_registry(spec, library, number)
    record = library.schemaless_reader(data, schema)
    if not isinstance(record, dict):
        raise ValueError("its schema is not a record")
    if data.read(1):
        raise ValueError("there are bytes behind the record")
    return record


def _column(values: list[Any]) -> pa.ChunkedArray:
    """Values as Arrow takes them; where it does not, as text."""
    try:
        return pa.chunked_array([pa.array(values)])
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.chunked_array([pa.array([None if v is None else _text(v) for v in values], pa.string())])


def _text(value: Any) -> str:
    return json.dumps(value, default=str) if isinstance(value, (dict, list)) else str(value)


def _from_registry(spec: SourceSpec, library: Any, number: int) -> Any:
    registry = str(spec.options[REGISTRY]).rstrip("/")
    if (registry, number) not in _schemas:
        request = urllib.request.Request(f"{registry}/schemas/ids/{number}")
        if "registry_login" in spec.options:
            import base64

            login = read_secret("registry_login", str(spec.options["registry_login"]))
            request.add_header("Authorization", "Basic " + base64.b64encode(login.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                found = json.loads(json.load(answer)["schema"])
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise ValueError(f"the registry has no schema {number}") from None
            raise _unanswered_problem(spec, registry, error) from None
        except (OSError, KeyError, ValueError) as error:
            raise _unanswered_problem(spec, registry, error) from None
        _schemas[registry, number] = library.parse_schema(found)
    return _schemas[registry, number]


def _unanswered_problem(spec: SourceSpec, registry: str, error: Exception) -> SourceProblem:
    return SourceProblem(
        "TM420", f'the schema registry of "{spec.name}" does not answer', detail=f"{registry}: {error}"
    )
