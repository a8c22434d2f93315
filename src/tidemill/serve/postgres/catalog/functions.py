"""Functions of Postgres that tools call in catalog queries, as macros of DuckDB; and which other functions they may."""

from __future__ import annotations

from tidemill.serve.postgres import fields as f

PREFIX = "tm_"  # of the names of macros, so that none hides a function of DuckDB

_NULL, _TRUE, _ZERO = "CAST(NULL AS VARCHAR)", "true", "CAST(0 AS BIGINT)"


def _format_type() -> str:
    plain = " ".join(f"WHEN {oid} THEN '{name}'" for oid, name in f.NAMES.items() if oid != f.NUMERIC)
    arrays = " ".join(f"WHEN {f.ARRAYS[oid]} THEN '{name}[]'" for oid, name in f.NAMES.items() if oid in f.ARRAYS)
    numeric = (
        "CASE WHEN m >= 4 THEN 'numeric(' || ((m - 4) >> 16) || ',' || ((m - 4) & 65535) || ')' ELSE 'numeric' END"
    )
    names = "WHEN 18 THEN '\"char\"' WHEN 19 THEN 'name' WHEN 2205 THEN 'regclass'"
    return f"CASE t WHEN {f.NUMERIC} THEN {numeric} {plain} {arrays} {names} ELSE '???' END"


def _parse_ident() -> str:
    """The names in a dotted name: those in quotes as they are, others in small letters."""
    quoted = "replace(p[2:-2], '\"\"', '\"')"
    names = 'regexp_extract_all(n, \'"(?:[^"]|"")*"|[^".\\s]+\')'
    return f"[CASE WHEN starts_with(p, '\"') THEN {quoted} ELSE lower(p) END FOR p IN {names}]"


# name → arguments and body, of each number of arguments
_MACROS: dict[str, tuple[tuple[str, str], ...]] = {
    "format_type": (("t, m", _format_type()),),
    "pg_get_userbyid": (("o", "(SELECT any_value(rolname) FROM pg.pg_roles WHERE oid = o)"),),
    "pg_get_viewdef": (
        ("o", "(SELECT any_value(ev_action) FROM pg.pg_rewrite WHERE ev_class = o)"),
        ("o, p", "(SELECT any_value(ev_action) FROM pg.pg_rewrite WHERE ev_class = o)"),
    ),
    "to_regclass": (("n", "(SELECT any_value(oid) FROM pg.pg_class WHERE relname = n)"),),
    "to_regtype": (("n", "(SELECT any_value(oid) FROM pg.pg_type WHERE typname = n)"),),
    "regclass_name": (
        ("o", "coalesce((SELECT any_value(relname) FROM pg.pg_class WHERE oid = o), CAST(o AS VARCHAR))"),
    ),
    "regclass_oid": (("n", "(SELECT any_value(oid) FROM pg.pg_class WHERE relname = split_part(n, '.', -1))"),),
    "regtype_oid": (("n", "(SELECT any_value(oid) FROM pg.pg_type WHERE typname = split_part(n, '.', -1))"),),
    "regnamespace_oid": (("n", "(SELECT any_value(oid) FROM pg.pg_namespace WHERE nspname = n)"),),
    "quote_ident": (
        (
            "n",
            "CASE WHEN regexp_full_match(n, '[a-z_][a-z0-9_$]*') THEN n"
            " ELSE '\"' || replace(n, '\"', '\"\"') || '\"' END",
        ),
    ),
    "parse_ident": (("n", _parse_ident()),),
    "quote_literal": (("n", "'''' || replace(n, '''', '''''') || ''''"),),
    "array_remove": (("a, x", "list_filter(a, lambda e: e IS DISTINCT FROM x)"),),
    "array_to_string": (
        ("a, s", "list_aggregate(a, 'string_agg', s)"),
        ("a, s, n", "list_aggregate(a, 'string_agg', s)"),
    ),
    "pg_size_pretty": (("n", "n || ' bytes'"),),
    "getdatabaseencoding": (("", "'UTF8'"),),
    "pg_encoding_to_char": (("n", "'UTF8'"),),
    "pg_char_to_encoding": (("n", "6"),),
    "current_schemas": (("b", "CASE WHEN b THEN ['pg_catalog', 'public'] ELSE ['public'] END"),),
    "array_upper": (("a, d", "nullif(len(a), 0)"),),
    "array_lower": (("a, d", "CASE WHEN len(a) > 0 THEN 1 END"),),
    "_pg_expandarray": (("a", "{'x': CAST(NULL AS BIGINT), 'n': CAST(NULL AS BIGINT)}"),),
    "pg_get_expr": (("a, b", _NULL), ("a, b, c", _NULL)),
    "pg_get_indexdef": (("a", _NULL), ("a, b, c", _NULL)),
    "obj_description": (("a", _NULL), ("a, b", _NULL)),
    "pg_get_constraintdef": (("a", _NULL), ("a, b", _NULL)),
    "pg_get_triggerdef": (("a", _NULL), ("a, b", _NULL)),
    "pg_get_ruledef": (("a", _NULL), ("a, b", _NULL)),
    **dict.fromkeys(("col_description", "shobj_description", "pg_get_serial_sequence"), (("a, b", _NULL),)),
    **dict.fromkeys(
        (
            "pg_get_functiondef",
            "pg_get_function_result",
            "pg_get_function_arguments",
            "pg_get_function_identity_arguments",
            "pg_get_partkeydef",
            "pg_get_statisticsobjdef_columns",
            "pg_tablespace_location",
            "pg_get_function_sqlbody",
        ),
        (("a", _NULL),),
    ),
    **dict.fromkeys(("inet_server_addr", "inet_client_addr"), (("", _NULL),)),
    **dict.fromkeys(("inet_server_port", "inet_client_port", "pg_my_temp_schema", "txid_current"), (("", _ZERO),)),
    "pg_is_in_recovery": (("", "false"),),
    **dict.fromkeys(("pg_advisory_unlock_all", "pg_stat_clear_snapshot"), (("", _NULL),)),
    **dict.fromkeys(("pg_postmaster_start_time", "pg_conf_load_time"), (("", "CAST('2000-01-01' AS TIMESTAMP)"),)),
    **dict.fromkeys(("pg_is_other_temp_schema", "pg_relation_is_publishable"), (("a", "false"),)),
    "pg_relation_is_updatable": (("a, b", _ZERO),),
    **dict.fromkeys(
        ("pg_relation_size", "pg_total_relation_size", "pg_table_size", "pg_indexes_size", "pg_database_size"),
        (("a", _ZERO),),
    ),
    "pg_tablespace_size": (("a", _ZERO),),
    **dict.fromkeys(
        tuple(
            f"pg_{kind}_is_visible"
            for kind in ("table", "type", "function", "operator", "opclass", "collation", "statistics_obj", "ts_config")
        ),
        (("a", _TRUE),),
    ),
    **dict.fromkeys(
        tuple(
            f"has_{kind}_privilege"
            for kind in ("table", "schema", "database", "any_column", "function", "sequence", "tablespace", "language")
        ),
        (("a, b", _TRUE), ("a, b, c", _TRUE)),
    ),
    "has_column_privilege": (("a, b, c", _TRUE), ("a, b, c, d", _TRUE)),
    "pg_has_role": (("a, b", _TRUE), ("a, b, c", _TRUE)),
}
TABLE_FUNCTIONS = {
    "pg_options_to_table": "SELECT '' AS option_name, '' AS option_value WHERE false",
    "aclexplode": "SELECT 0 AS grantor, 0 AS grantee, '' AS privilege_type, false AS is_grantable WHERE false",
    "pg_get_publication_tables": "SELECT CAST(NULL AS BIGINT) AS relid WHERE false",
}
MACROS = frozenset(_MACROS)

# What else a catalog query may call: keys of sqlglot's classes, and names that it has no class for.
CALLS = frozenset(
    "and or not xor case if cast trycast coalesce nullif greatest least concat concatws lower upper length substring"
    " trim replace left right strposition splitpart split stringtoarray count countif max min sum avg anyvalue arrayagg"
    " groupconcat stringagg array list exists any all unnest explode posexplode generateseries"
    " explodinggenerateseries rownumber rank denserank"
    " regexplike regexpilike regexpreplace regexpsplit regexpextract arraycontains arraytostring arraylength arraysize"
    " arrayposition arrayconcat abs round floor ceil currentdate currenttimestamp currenttime extract filter"
    " logicalor logicaland struct dot in between like ilike is timestamptrunc rowtojson tochar initcap ascii chr"
    " currentuser sessionuser currentschema currentcatalog currentdatabase version lag lead firstvalue"
    " lastvalue".split()
)
NAMES = frozenset(
    "array_to_string string_to_array array_length array_agg string_agg array_position array_append array_cat"
    " array_remove generate_series generate_subscripts unnest row_number btrim position char_length strpos"
    " bool_or bool_and to_char now"
    " cardinality translate".split()
)
# Functions of one value that stand in FROM as well.
SCALARS = frozenset(
    "string_to_array current_setting current_schemas version current_database current_schema parse_ident".split()
)


def definitions() -> list[str]:
    """CREATE statements of all macros."""
    made = []
    for name, overloads in _MACROS.items():
        bodies = ", ".join(f"({arguments}) AS {body}" for arguments, body in overloads)
        made.append(f"CREATE MACRO {PREFIX}{name}{bodies}")
    for name, body in TABLE_FUNCTIONS.items():
        made.append(f"CREATE MACRO {PREFIX}{name}(a) AS TABLE {body}")
    return made
