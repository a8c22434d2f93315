"""Types of parameters that a client leaves open: those of the columns and casts beside them, as Postgres finds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from tidemill.engine.users.session import RelationInfo
from tidemill.serve.postgres import fields as f
from tidemill.serve.postgres.catalog.relations import INFORMATION, RELATIONS, column_types
from tidemill.serve.postgres.lexical import Piece, Token
from tidemill.serve.postgres.parameters import bind_values

_MARK = "tm_parameter_"
_AS_OF = re.compile(r"\bAS\s+OF\s+\S+\s*$", re.IGNORECASE)  # a parameter: no clause of SQL
_OID_CAST = re.compile(r"::\s*oid\b", re.IGNORECASE)
_NAMES = {
    "BOOLEAN": f.BOOL,
    "TINYINT": f.INT2,
    "SMALLINT": f.INT2,
    "INT": f.INT4,
    "BIGINT": f.INT8,
    "UTINYINT": f.INT2,
    "USMALLINT": f.INT4,
    "UINT": f.INT8,
    "UBIGINT": f.NUMERIC,
    "INT128": f.NUMERIC,
    "DECIMAL": f.NUMERIC,
    "FLOAT": f.FLOAT4,
    "DOUBLE": f.FLOAT8,
    "VARBINARY": f.BYTEA,
    "DATE": f.DATE,
    "TIME": f.TIME,
    "TIMESTAMP": f.TIMESTAMP,
    "TIMESTAMPNTZ": f.TIMESTAMP,
    "TIMESTAMPTZ": f.TIMESTAMPTZ,
    "INTERVAL": f.INTERVAL,
    "UUID": f.UUID,
    "JSON": f.JSON,
}
_WORDS = {  # how a cast of Postgres names them: $1::int8
    "bool": f.BOOL,
    "boolean": f.BOOL,
    "int2": f.INT2,
    "smallint": f.INT2,
    "int": f.INT4,
    "int4": f.INT4,
    "integer": f.INT4,
    "int8": f.INT8,
    "bigint": f.INT8,
    "oid": f.OID,
    "float4": f.FLOAT4,
    "real": f.FLOAT4,
    "float8": f.FLOAT8,
    "double": f.FLOAT8,
    "numeric": f.NUMERIC,
    "decimal": f.NUMERIC,
    "text": f.TEXT,
    "varchar": f.TEXT,
    "bytea": f.BYTEA,
    "blob": f.BYTEA,
    "date": f.DATE,
    "time": f.TIME,
    "timestamp": f.TIMESTAMP,
    "timestamptz": f.TIMESTAMPTZ,
    "interval": f.INTERVAL,
    "uuid": f.UUID,
    "json": f.JSON,
}
_TEXTS = ("TEXT", "VARCHAR", "CHAR", "NAME", "BPCHAR", "NVARCHAR")
_TIMES = (f.TIMESTAMP, f.TIMESTAMPTZ, f.DATE, f.TIME)


def infer_types(piece: Piece, given: Sequence[int], relations: Iterable[RelationInfo]) -> list[int]:
    """The type of each parameter: the given one where there is one, what the text says of it, and otherwise text.

    >>> from tidemill.serve.postgres.lexical import split_statements
    >>> rooms = RelationInfo(1, "Hot", "view", (("room", "INTEGER"), ("temp", "DOUBLE")), (), "")
    >>> text = "SELECT temp FROM hot WHERE room = $1 AND temp + 1 > $2 AND $3 <> $4::date LIMIT $5"
    >>> infer_types(split_statements(text)[0], [0] * 5, [rooms]) == [f.INT4, f.FLOAT8, f.DATE, f.DATE, f.INT8]
    True
    """
    found = {**_find_types(piece, len(given), relations), **_find_casts(piece)} if 0 in given else {}
    return [oid or found.get(number) or f.TEXT for number, oid in enumerate(given, 1)]


def _find_casts(piece: Piece) -> dict[int, int]:
    """What $1::type says, also in a statement that is no query of SQL.

    >>> from tidemill.serve.postgres.lexical import split_statements
    >>> _find_casts(split_statements("SUBSCRIBE v AS OF $1::timestamptz, $2::oid[], $3")[0])
    {1: 1184, 2: 1028}
    """
    found, tokens = {}, [*piece.tokens, *[Token("sign", 0, 0, "")] * 6]
    for at, token in enumerate(piece.tokens):
        after = [t.text.lower() for t in tokens[at + 1 : at + 6]]
        if token.kind == "parameter" and after[:2] == [":", ":"] and after[2] in _WORDS:
            oid = f.TIMESTAMPTZ if after[2:5] == ["timestamp", "with", "time"] else _WORDS[after[2]]
            found[int(token.text[1:])] = f.ARRAYS[oid] if after[3:5] == ["[", "]"] and oid in f.ARRAYS else oid
    return found


def _find_types(piece: Piece, count: int, relations: Iterable[RelationInfo]) -> dict[int, int]:
    """Number of the parameter → type, where the text says one."""
    text = bind_values(piece, [f"{_MARK}{number}()" for number in range(1, count + 1)]).text
    text = _OID_CAST.sub(
        "::bigint", _AS_OF.sub("", text)
    )  # of parameters it is known, and the parser has no lists of it
    try:
        tree = _annotate(parse_one(text, read="postgres"), relations)
    except (SqlglotError, RecursionError):
        return {}
    found: dict[int, int] = {}
    for call in tree.find_all(exp.Anonymous):
        if call.name.startswith(_MARK):
            number, oid = int(call.name.removeprefix(_MARK)), _wanted_type(call)
            if oid and number not in found:
                found[number] = oid
    return found


def _annotate(tree: exp.Expr, relations: Iterable[RelationInfo]) -> exp.Expr:
    """The tree with a type at each node, as far as it is known; where columns cannot be found, casts say theirs."""
    schema: dict[str, Any] = {
        r.name.lower(): {name.lower(): kind for name, kind in r.columns} for r in relations if r.columns
    }
    for table in tree.find_all(exp.Table):
        table.set("db", None)
        table.set("catalog", None)
        name = table.name.lower()
        if name in RELATIONS or name in INFORMATION:
            schema.setdefault(name, column_types(name))
    try:
        plain = qualify(
            tree.copy(), schema=schema, dialect="duckdb", validate_qualify_columns=False, expand_stars=False
        )
        return annotate_types(plain, schema=schema, dialect="duckdb")
    except SqlglotError:
        return annotate_types(tree, dialect="duckdb")


def _wanted_type(node: exp.Expr) -> int:
    """The type that the surroundings of a parameter ask for; 0 where they do not say."""
    parent = node.parent
    while isinstance(parent, (exp.Paren, exp.Neg)):
        node, parent = parent, parent.parent
    if isinstance(parent, (exp.Limit, exp.Offset, exp.Fetch)):
        return f.INT8
    if isinstance(parent, exp.Cast):
        return _oid(parent.to)
    if isinstance(parent, (exp.Any, exp.All)) and isinstance(parent.parent, exp.Binary):
        return f.ARRAYS.get(_beside(parent, parent.parent), 0)
    if isinstance(parent, exp.If) and parent.parent is not None:  # the value of a WHEN; a condition is none
        return f.BOOL if node.arg_key == "this" else _beside(parent, parent.parent)
    if isinstance(parent, (exp.Binary, exp.Between, exp.In, exp.Coalesce, exp.Case)):
        found = _beside(node, parent)
        return f.INTERVAL if isinstance(parent, exp.Add) and found in _TIMES else found
    return 0


def _beside(node: exp.Expr, parent: exp.Expr) -> int:
    """The type of the first operand beside a node that has one."""
    others = (e.args.get("true") if isinstance(e, exp.If) else e for e in parent.iter_expressions() if e is not node)
    return next((oid for e in others if isinstance(e, exp.Expr) and (oid := _oid(e.type))), 0)


def _oid(kind: exp.DataType | None) -> int:
    """The number of a type; 0 where it is not known.

    >>> _oid(exp.DataType.build("INT[]", dialect="duckdb")), _oid(exp.DataType.build("oid", udt=True))
    (1007, 26)
    """
    if kind is None:
        return 0
    if kind.is_type("ARRAY", "LIST"):
        return f.ARRAYS.get(_oid(kind.expressions[0]) if kind.expressions else 0, 0)
    name = str(getattr(kind.this, "value", kind.this)).upper()
    if name == "USER-DEFINED":
        return f.OID if str(kind.args.get("kind")).upper() == "OID" else 0
    return f.TEXT if name in _TEXTS else _NAMES.get(name, 0)
