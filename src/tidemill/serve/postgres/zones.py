"""Times with a zone on the clock of a session."""

from __future__ import annotations

import pyarrow as pa


def in_zone(table: pa.Table, zone: str) -> pa.Table:
    """The same moments, shown in a zone.

    >>> noon = pa.table({"t": pa.array([0], pa.timestamp("us", "UTC"))})
    >>> in_zone(noon, "Asia/Tokyo").to_pylist()[0]["t"].isoformat()
    '1970-01-01T09:00:00+09:00'
    """
    schema = pa.schema([field.with_type(_type_in(field.type, zone)) for field in table.schema], table.schema.metadata)
    return table if schema == table.schema else table.cast(schema)


def _type_in(kind: pa.DataType, zone: str) -> pa.DataType:
    """A type with this zone in the place of any other."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone) if kind.tz else kind
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in(kind.value_type, zone)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in(field.type, zone)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_type_in(kind.key_type, zone), _type_in(kind.item_type, zone))
    return kind
