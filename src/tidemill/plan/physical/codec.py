"""Dataclasses to JSON and back, by their fields and type hints: the one codec of physical plans and of ticks.

| type | JSON |
|---|---|
| a dataclass | an object with a key for each field; `field(metadata={"json": name})` gives another key |
| a NamedTuple, a tuple, a list | an array |
| one of several dataclasses with a `tag` | an array: the tag, then the fields |
| an operator | {"id", "inputs", "kind", "schema", "params": an object with the fields of its own} |

An array is read as a dataclass as well, by position, and a key that is missing as the field's default: plans that were
written before a field existed, or when a column was an array of name and type, are read like any other.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

Decoder = Callable[[Any], Any]


def key_of(field: Field[Any]) -> str:
    """The JSON key of a dataclass field."""
    return str(field.metadata.get("json", field.name))


def fields_of(value: Any, skip: int = 0) -> dict[str, Any]:
    """The fields of a dataclass after the first `skip`, by JSON key."""
    cls: Any = type(value)
    return {key: getattr(value, name) for name, key in _names_and_keys(cls)[skip:]}


@cache
def _names_and_keys(cls: Any) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, key_of(f)) for f in fields(cls))


def encode(value: Any) -> Any:
    """One level of a dataclass as JSON has it; json calls this for whatever it does not know."""
    cls: Any = type(value)
    return _encoder(cls)(value)


@cache
def _encoder(cls: Any) -> Callable[[Any], Any]:
    if not is_dataclass(cls):
        raise TypeError(f"{cls.__name__} is no part of a plan")
    tag = getattr(cls, "tag", None)
    return fields_of if tag is None else lambda value: [tag, *fields_of(value).values()]


@cache
def decoder(hint: Any) -> Decoder:
    """The function that makes a value of a type from its JSON."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _union(tuple(a for a in args if a is not types.NoneType))
    if origin is tuple:
        return _sequence(args[0]) if args[-1] is Ellipsis else _row(args, tuple)
    if origin is list:
        item_of = decoder(args[0])
        return _same if item_of is _same else lambda data: [item_of(value) for value in data]
    if origin is dict:
        value_of = decoder(args[1])
        return _same if value_of is _same else lambda data: {key: value_of(value) for key, value in data.items()}
    if is_dataclass(hint):
        return _object(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return _row(tuple(get_type_hints(hint).values()), hint._make)  # type: ignore[attr-defined]  # a NamedTuple
    return _same


def _same(data: Any) -> Any:
    return data


def _sequence(item: Any) -> Decoder:
    item_of = decoder(item)
    return tuple if item_of is _same else lambda data: tuple(map(item_of, data))


def _row(items: tuple[Any, ...], make: Callable[[Any], Any]) -> Decoder:
    decoders = [decoder(item) for item in items]
    if make is not tuple and all(d is _same for d in decoders):
        return make  # a NamedTuple checks the number of its fields
    return lambda data: make([d(value) for d, value in zip(decoders, data, strict=True)])


def _union(members: tuple[Any, ...]) -> Decoder:
    """One type or nothing; several dataclasses with tags; or an array where it is one, else a plain value."""
    tagged = {m.tag: _object(m) for m in members if hasattr(m, "tag")}
    if tagged:
        return lambda data: tagged[data[0]](data[1:])
    arrays = [m for m in members if get_origin(m) is not Literal and m not in (str, int, float, bool)]
    if not arrays:
        return _same
    array_of = decoder(arrays[0])
    return lambda data: array_of(data) if isinstance(data, (list, dict)) else data


def _object(cls: Any) -> Decoder:
    values = values_decoder(cls)
    return lambda data: cls(**values(data))


@cache
def values_decoder(cls: Any, skip: int = 0) -> Decoder:
    """The function that finds the fields of a dataclass after the first `skip`, by name, in its JSON."""
    hints = get_type_hints(cls)
    known = [(f.name, key_of(f), decoder(hints[f.name]), _has_default(f)) for f in fields(cls)[skip:]]
    keys = {key for _, key, _, _ in known}
    renamed = any(name != key for name, key, _, _ in known)
    others = [(name, d) for name, _, d, _ in known if d is not _same]

    def decode(data: Any) -> dict[str, Any]:
        if type(data) is dict and data.keys() == keys:  # as plans of today are written
            if renamed:
                return {name: d(data[key]) for name, key, d, _ in known}
            return {**data, **{name: d(data[name]) for name, d in others}}
        found = data if isinstance(data, dict) else {key: v for (_, key, _, _), v in zip(known, data, strict=False)}
        return {name: d(found[key]) for name, key, d, optional in known if not optional or key in found}

    return decode


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
