"""DuckDB's functions by property: which of them the language has, from DuckDB's own catalogue.

A function is allowed when it is deterministic (`CONSISTENT`) and touches nothing outside of its arguments. The second
property is not in the catalogue, so what lacks it is listed here by what it touches.
"""

from __future__ import annotations

import re
from functools import cache

import duckdb

# Aggregates that draw samples, or are the inside of others.
_NO_AGGREGATES = frozenset(
    "reservoir_quantile combine_aggr count_star decimal_average variant_group_object sum_no_overflow lttb".split()
)
# Functions of types that views cannot hold (BIT, VARIANT, geometry), and the inside of DuckDB.
_INSIDE = re.compile(r"(icu_)?collate_|icu_|__|variant_|st_|bitstring|pg_|duckdb_|.*_byte_comparable")
_NO_SCALARS = {
    "the clock, the session, the database": "ago current_catalog current_localtime current_localtimestamp current_role"
    " current_user get_block_size session_user user version",
    "the plan, names and types of a query": "alias can_cast_implicitly cast_to_type get_type index_key invoke"
    " make_type replace_type create_sort_key constant_or_null remap_struct switch json_serialize_sql"
    " json_serialize_plan json_deserialize_sql parse_duckdb_log_message hive_partition_component vertex_extract",
    "states of aggregates, several rows, aggregates by name": "combine finalize to_aggregate_state aggregate array_aggr"
    " array_aggregate list_aggr list_aggregate generate_subscripts geomean geometric_mean json_group_array"
    " json_group_object json_group_structure regexp_split_to_table unpivot_list wavg weighted_avg assert_true"
    " is_histogram_other_bin equi_width_bins",
    "values or work without a bound": "range generate_series array_resize list_resize bar to_base editdist3"
    " damerau_levenshtein jaro_similarity jaro_winkler_similarity",
    "values without names": "row union_value get_bit set_bit",
}


@cache
def scalar_functions() -> frozenset[str]:
    """The scalar functions of DuckDB that are deterministic and read nothing but their arguments."""
    refused = {name for names in _NO_SCALARS.values() for name in names.split()}
    found = (_names("scalar") | _names("macro")) - refused
    return frozenset(name for name in found if not _INSIDE.match(name))


@cache
def aggregate_functions() -> frozenset[str]:
    """The aggregate functions of DuckDB that have one answer for each multiset of rows in a given order."""
    return _names("aggregate") - _NO_AGGREGATES


def _names(kind: str) -> frozenset[str]:
    with duckdb.connect() as duck:
        found = duck.execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_type = ? AND schema_name = 'main'"
            " GROUP BY function_name HAVING bool_and(coalesce(stability, 'CONSISTENT') = 'CONSISTENT')",
            [kind],
        ).fetchall()
    return frozenset(name for (name,) in found if re.fullmatch(r"[a-z][a-z0-9_]*", name))
