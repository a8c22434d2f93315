"""The rows of the shadow catalog: relations, columns, types, users and one database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidemill.engine.users.session import RelationInfo, UserInfo
from tidemill.serve.postgres import fields as f
from tidemill.serve.postgres.lexical import scan

Rows = dict[str, list[dict[str, Any]]]

PUBLIC, CATALOG, INFORMATION, DATABASE, HEAP, OWNER = 2200, 11, 13_000, 16_383, 2, 10
_SERVER = 16_382  # the foreign server of sources and streams
_KINDS = {"view": "v", "query": "v", "table": "r", "source": "f", "stream": "f"}
_TABLE_TYPES = {"v": "VIEW", "r": "BASE TABLE", "f": "FOREIGN"}
_TYPE_NAMES = {  # typname, typlen, typcategory
    f.BOOL: ("bool", 1, "B"),
    f.BYTEA: ("bytea", -1, "U"),
    f.INT8: ("int8", 8, "N"),
    f.INT2: ("int2", 2, "N"),
    f.INT4: ("int4", 4, "N"),
    f.TEXT: ("text", -1, "S"),
    f.OID: ("oid", 4, "N"),
    f.JSON: ("json", -1, "U"),
    f.FLOAT4: ("float4", 4, "N"),
    f.FLOAT8: ("float8", 8, "N"),
    f.VARCHAR: ("varchar", -1, "S"),
    f.BPCHAR: ("bpchar", -1, "S"),
    f.DATE: ("date", 4, "D"),
    f.TIME: ("time", 8, "D"),
    f.TIMESTAMP: ("timestamp", 8, "D"),
    f.TIMESTAMPTZ: ("timestamptz", 8, "D"),
    f.INTERVAL: ("interval", 16, "T"),
    f.NUMERIC: ("numeric", -1, "N"),
    f.UUID: ("uuid", 16, "U"),
    18: ("char", 1, "Z"),
    19: ("name", 64, "S"),
    f.UNKNOWN: ("unknown", -2, "X"),
    2278: ("void", 4, "P"),
}


def fill_rows(found: Iterable[RelationInfo], users: Iterable[UserInfo], context: dict[str, str]) -> Rows:
    """The rows of each relation that has some."""
    listed = list(found)
    rows: Rows = {
        "pg.pg_namespace": _namespaces(),
        "pg.pg_class": [_class_row(r) for r in listed],
        "pg.pg_attribute": [row for r in listed for row in _attribute_rows(r)],
        "pg.pg_type": _types(),
        "pg.pg_am": [{"oid": HEAP, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}],
        "pg.pg_tablespace": [{"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}],
        "pg.pg_language": [{"oid": 14, "lanname": "sql", "lanowner": OWNER, "lanispl": False, "lanpltrusted": True}],
        "pg.pg_collation": [{"oid": 100, "collname": "default", "collnamespace": CATALOG, "collowner": OWNER}],
        "pg.pg_foreign_data_wrapper": [{"oid": _SERVER - 1, "fdwname": "tidemill", "fdwowner": OWNER}],
        "pg.pg_foreign_server": [{"oid": _SERVER, "srvname": "tidemill", "srvowner": OWNER, "srvfdw": _SERVER - 1}],
        "pg.pg_foreign_table": [{"ftrelid": r.id, "ftserver": _SERVER} for r in listed if _KINDS[r.kind] == "f"],
        "pg.pg_rewrite": [
            {
                "oid": r.id,
                "rulename": "_RETURN",
                "ev_class": r.id,
                "ev_type": "1",
                "ev_action": query_text(r.definition),
            }
            for r in listed
            if _KINDS[r.kind] == "v"
        ],
        "pg.pg_database": [_database(context["database"])],
    }
    return rows | _roles(list(users), context["user"]) | _listings(listed, context) | _information(listed, context)


def query_text(definition: str) -> str:
    """The query of CREATE VIEW … AS query; other texts as they are.

    >>> query_text("CREATE VIEW v WITH (a = 'AS') AS SELECT 1 AS x")
    'SELECT 1 AS x'
    """
    tokens = scan(definition)
    found = [token.end for token in tokens if token.word == "AS"] if tokens and tokens[0].word == "CREATE" else []
    return definition[found[0] :].strip() if found else definition


def _namespaces() -> list[dict[str, Any]]:
    names = {"pg_catalog": CATALOG, "public": PUBLIC, "information_schema": INFORMATION}
    return [{"oid": oid, "nspname": name, "nspowner": OWNER} for name, oid in names.items()]


def _class_row(r: RelationInfo) -> dict[str, Any]:
    kind = _KINDS[r.kind]
    plain = dict.fromkeys(("reltype", "reloftype", "relfilenode", "reltablespace", "reltoastrelid", "relrewrite"), 0)
    no = ("relhasindex", "relisshared", "relhastriggers", "relhassubclass", "relrowsecurity", "relispartition")
    return {
        **plain,
        **dict.fromkeys((*no, "relforcerowsecurity"), False),
        "oid": r.id,
        "relname": r.name,
        "relnamespace": PUBLIC,
        "relowner": OWNER,
        "relam": HEAP if kind == "r" else 0,
        "relpages": 0,
        "reltuples": -1.0,
        "relallvisible": 0,
        "relpersistence": "p",
        "relkind": kind,
        "relnatts": len(r.columns),
        "relchecks": 0,
        "relhasrules": kind == "v",
        "relispopulated": True,
        "relreplident": "d",
    }


def _attribute_rows(r: RelationInfo) -> list[dict[str, Any]]:
    found = []
    for number, (name, kind) in enumerate(r.columns, 1):
        oid, modifier = f.oid_of_name(kind)
        found.append(
            {
                "attrelid": r.id,
                "attname": name,
                "atttypid": oid,
                "attstattarget": -1,
                "attlen": _TYPE_NAMES.get(oid, ("", -1, ""))[1],
                "attnum": number,
                "attndims": int(oid in f.ELEMENTS),
                "attcacheoff": -1,
                "atttypmod": modifier,
                "attbyval": False,
                "attalign": "i",
                "attstorage": "p",
                "attcompression": "",
                "attidentity": "",
                "attgenerated": "",
                "attislocal": True,
                "attinhcount": 0,
                "attcollation": 0,
                **dict.fromkeys(("attnotnull", "atthasdef", "atthasmissing", "attisdropped"), False),
            }
        )
    return found


def _types() -> list[dict[str, Any]]:
    found = [_type_row(oid, name, length, category) for oid, (name, length, category) in _TYPE_NAMES.items()]
    for element, array in f.ARRAYS.items():
        found.append(_type_row(array, "_" + _TYPE_NAMES[element][0], -1, "A") | {"typelem": element})
    return found


def _type_row(oid: int, name: str, length: int, category: str) -> dict[str, Any]:
    return {
        "oid": oid,
        "typname": name,
        "typnamespace": CATALOG,
        "typowner": OWNER,
        "typlen": length,
        "typbyval": 0 < length <= 8,
        "typtype": "p" if category == "P" else "b",
        "typcategory": category,
        "typispreferred": oid in (f.TEXT, f.FLOAT8, f.TIMESTAMPTZ, f.BOOL),
        "typisdefined": True,
        "typdelim": ",",
        "typrelid": 0,
        "typelem": 0,
        "typarray": f.ARRAYS.get(oid, 0),
        "typinput": "array_in" if category == "A" else f"{name}in",
        "typoutput": f"{name}out",
        "typreceive": f"{name}recv",
        "typsend": f"{name}send",
        "typnotnull": False,
        "typbasetype": 0,
        "typtypmod": -1,
        "typndims": 0,
        "typcollation": 100 if category == "S" else 0,
    }


def _database(name: str) -> dict[str, Any]:
    return {
        "oid": DATABASE,
        "datname": name,
        "datdba": OWNER,
        "encoding": 6,
        "datlocprovider": "c",
        "datistemplate": False,
        "datallowconn": True,
        "datconnlimit": -1,
        "dattablespace": 1663,
        "datcollate": "C",
        "datctype": "C",
    }


def _roles(users: list[UserInfo], current: str) -> Rows:
    """The users; where there are none, the one who is connected, who owns everything."""
    shown = [(u.id, u.name, u.has_all_rights, u.may_create) for u in users] or [(OWNER, current, True, True)]
    if users:
        shown = [(OWNER, "tidemill", True, True), *(row for row in shown if row[1].lower() != "tidemill")]
    roles = [
        {
            "oid": oid,
            "rolname": name,
            "rolsuper": all_rights,
            "rolinherit": True,
            "rolcreaterole": all_rights,
            "rolcreatedb": creates,
            "rolcanlogin": True,
            "rolreplication": False,
            "rolconnlimit": -1,
            "rolpassword": "********",
            "rolbypassrls": all_rights,
        }
        for oid, name, all_rights, creates in shown
    ]
    listed = [
        {"usename": name, "usesysid": oid, "usecreatedb": creates, "usesuper": all_rights, "passwd": "********"}
        for oid, name, all_rights, creates in shown
    ]
    return {"pg.pg_roles": roles, "pg.pg_user": listed}


def _listings(found: list[RelationInfo], context: dict[str, str]) -> Rows:
    owner = {"viewowner": "tidemill", "tableowner": "tidemill"}
    place = {"schemaname": "public", **owner}
    return {
        "pg.pg_views": [
            {**place, "viewname": r.name, "definition": query_text(r.definition)}
            for r in found
            if _KINDS[r.kind] == "v"
        ],
        "pg.pg_tables": [{**place, "tablename": r.name} for r in found if _KINDS[r.kind] == "r"],
        "pg.pg_stat_user_tables": [
            {"relid": r.id, "schemaname": "public", "relname": r.name} for r in found if _KINDS[r.kind] == "r"
        ],
    }


def _information(found: list[RelationInfo], context: dict[str, str]) -> Rows:
    database = context["database"]
    place = {"table_catalog": database, "table_schema": "public"}
    schemata = [
        {"catalog_name": database, "schema_name": name, "schema_owner": "tidemill"}
        for name in ("pg_catalog", "public", "information_schema")
    ]
    tables = [
        {**place, "table_name": r.name, "table_type": _TABLE_TYPES[_KINDS[r.kind]], "is_insertable_into": "NO"}
        for r in found
    ]
    views = [
        {
            **place,
            "table_name": r.name,
            "view_definition": query_text(r.definition),
            "is_updatable": "NO",
            "check_option": "NONE",
        }
        for r in found
        if _KINDS[r.kind] == "v"
    ]
    columns = [_column_row(place, r, n, name, kind) for r in found for n, (name, kind) in enumerate(r.columns, 1)]
    granted = [
        {**place, "grantor": "tidemill", "grantee": context["user"], "table_name": r.name, "privilege_type": "SELECT"}
        for r in found
    ]
    return {
        "info.schemata": schemata,
        "info.tables": tables,
        "info.views": views,
        "info.columns": columns,
        "info.table_privileges": granted,
        "info.role_table_grants": granted,
        "info.enabled_roles": [{"role_name": context["user"]}],
    }


def _column_row(place: dict[str, str], r: RelationInfo, number: int, name: str, kind: str) -> dict[str, Any]:
    oid, modifier = f.oid_of_name(kind)
    precision = ((modifier - 4) >> 16, (modifier - 4) & 65_535) if modifier >= 4 else (None, None)
    sizes = {f.INT2: 16, f.INT4: 32, f.INT8: 64, f.FLOAT4: 24, f.FLOAT8: 53}
    return {
        **place,
        "table_name": r.name,
        "column_name": name,
        "ordinal_position": number,
        "is_nullable": "YES",
        "data_type": "ARRAY" if oid in f.ELEMENTS else f.NAMES.get(oid, "text"),
        "numeric_precision": precision[0] or sizes.get(oid),
        "numeric_scale": precision[1] if precision[1] is not None else (0 if oid in (f.INT2, f.INT4, f.INT8) else None),
        "numeric_precision_radix": 10 if oid == f.NUMERIC else 2 if oid in sizes else None,
        "datetime_precision": 6 if oid in (f.TIMESTAMP, f.TIMESTAMPTZ, f.TIME) else None,
        "udt_catalog": place["table_catalog"],
        "udt_schema": "pg_catalog",
        "udt_name": _TYPE_NAMES[f.ELEMENTS.get(oid, oid)][0]
        if oid not in f.ELEMENTS
        else "_" + _TYPE_NAMES[f.ELEMENTS[oid]][0],
        "dtd_identifier": str(number),
        "is_identity": "NO",
        "is_generated": "NEVER",
        "is_updatable": "NO",
    }
