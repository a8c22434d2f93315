"""The functions of the language: those listed here, and those that `catalogue` finds. Nothing else reaches DuckDB."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp, parse_one

from tidemill.plan.aggregates import FUNCTIONS
from tidemill.plan.user_aggregates import UserAggregateDefinition
from tidemill.sql.bind.catalogue import aggregate_functions, scalar_functions
from tidemill.sql.bind.user_functions import is_user_function
from tidemill.sql.dialect.nodes import Now, all_nodes, copy_tree

ALLOWED = frozenset(
    """
abs ceil ceiling floor round trunc sign sqrt cbrt exp ln log log2 log10 power pow mod sin cos tan asin acos atan atan2
degrees radians pi greatest least gcd lcm even factorial isnan isinf isfinite bit_count
coalesce ifnull nullif if case cast try_cast concat concat_ws length char_length character_length strlen
upper lower ucase lcase trim ltrim rtrim substr substring left right replace reverse repeat lpad rpad
position strpos instr contains starts_with ends_with prefix suffix split_part string_split str_split
regexp_matches regexp_replace regexp_extract regexp_like regexp_full_match translate ascii chr unicode ord initcap
md5 sha256 hash hex to_hex unhex bin format printf like_escape levenshtein jaccard
date_trunc date_part datepart extract date_diff datediff date_sub datesub date_add dateadd datetrunc
year month day hour minute second millisecond microsecond quarter week weekday dayofweek dayofmonth dayofyear isodow
dayname monthname last_day epoch epoch_ms epoch_us epoch_ns make_date make_time make_timestamp to_timestamp
strftime strptime try_strptime age time_bucket date_bin
to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds
time_to_str str_to_time ts_or_ds_to_date timestamp_trunc day_of_week day_of_month day_of_year week_of_year
str_position starts_with string_to_array anonymous unix_to_time time_to_unix str_to_date safe_divide int_div
array_contains list_contains json_extract json_extract_string json_extract_scalar is_nan is_inf
pad split sha2 date_from_parts time_from_parts timestamp_from_parts
""".split()
)

AGGREGATES: dict[type[exp.Expression], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.ApproxDistinct: "approx_count_distinct",
}
AGGREGATE_NAMES = {
    "stddev": "stddev_samp",
    "mean": "avg",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "approx_count_distinct": "approx_count_distinct",
    "approx_distinct": "approx_count_distinct",
}

_OPERATORS = (
    exp.Binary,
    exp.Unary,
    exp.Between,
    exp.In,
    exp.Case,
    exp.If,
    exp.Cast,
    exp.TryCast,
    exp.Literal,
    exp.Column,
    exp.Identifier,
    exp.Paren,
    exp.Null,
    exp.Boolean,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.Tuple,
    exp.Array,
    exp.Struct,
    exp.PropertyEQ,
    exp.ToMap,
    exp.Map,
    exp.Slice,
    exp.Lambda,
    exp.AtTimeZone,
    exp.JSONKeyValue,
    exp.Distinct,
    exp.Star,
    exp.Alias,
    exp.Dot,
    exp.Bracket,
    exp.Extract,
    exp.JSONPath,
    exp.JSONPathPart,
    Now,
)


# What other systems call what DuckDB has.
_INSTEAD = {
    "date_format": "strftime(time, '%Y-%m-%d')",
    "to_char": "strftime(time, '%Y-%m-%d')",
    "split_index": "split_part(text, ',', n + 1): parts are counted from 1",
    "comprehension": "list_transform(list_filter(list, lambda x: x > 0), lambda x: x + 1)",
    "columns": "name the columns, or  * LIKE 'a%'",
    "current_date": "the time of a row is TS; a window looks back from NOW:  S [WINDOW 1 DAY]",
    "current_timestamp": "the time of a row is TS; a window looks back from NOW:  S [WINDOW 1 DAY]",
}


def aggregate_name(node: exp.Expr) -> str | None:
    """The aggregate function a node calls, or None."""
    for kind, name in AGGREGATES.items():
        if type(node) is kind:
            return name
    if isinstance(node, exp.Anonymous):
        own, written = user_aggregate_of(node), node.name.lower()
        if own is not None:
            return own.name.lower()
        return AGGREGATE_NAMES.get(written) or (written if written in aggregate_functions() else None)
    if isinstance(node, (exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        return name_in_sql(node) if aggregate_name(node.this) else None
    if isinstance(node, exp.AggFunc):
        written = name_in_sql(node)
        return written if written in aggregate_functions() else None
    return None


def name_in_sql(node: exp.Expr) -> str:
    """The name under which SQL has this node.

    >>> name_in_sql(parse_one("any_value(x)", dialect="duckdb")), name_in_sql(parse_one("getenv('HOME')"))
    ('any_value', 'getenv')
    >>> name_in_sql(parse_one("time_bucket(INTERVAL '1 minute', x)", dialect="duckdb"))
    'time_bucket'
    """
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        return name_in_sql(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name
    if "written" in node.meta:
        return str(node.meta["written"])
    if not isinstance(node, exp.Func):
        return node.key
    written = node.sql(dialect="duckdb").partition("(")[0].lower()
    return written if written.isidentifier() else node.sql_name().lower()


def hint_for(node: exp.Expr) -> str:
    """What to write in place of a function that is not part of the language."""
    return _INSTEAD.get(name_in_sql(node).lower(), "the language reference lists all functions")


def user_aggregate_of(node: exp.Expr) -> UserAggregateDefinition | None:
    """The user's aggregate that a node calls, or None."""
    return node.meta.get("user_aggregate") if isinstance(node, exp.Anonymous) else None


def mark_user_aggregates(
    query: exp.Expression, known: Callable[[str], UserAggregateDefinition | None]
) -> tuple[exp.Expression, frozenset[str]]:
    """A query in which the calls of users' aggregates are marked, and their names; the one given stays as it is."""
    if not any(isinstance(n, exp.Anonymous) and known(n.name) for n in all_nodes(query)):
        return query, frozenset()
    query, names = copy_tree(query), set()
    for node in query.find_all(exp.Anonymous):
        found = known(node.name)
        if found is not None:
            node.meta["user_aggregate"] = found
            names.add(found.name)
    return query, frozenset(names)


def is_function(name: str) -> bool:
    """True when the language, or its parser, has a function of this name."""
    call = parse_one(f"SELECT {name}(x)", dialect="duckdb").expressions[0]
    return not isinstance(call, exp.Anonymous) or name.lower() in {
        *ALLOWED,
        *AGGREGATE_NAMES,
        *FUNCTIONS,
        *aggregate_functions(),
    }


def is_allowed(node: exp.Expr) -> bool:
    """True when this node, taken alone, may stand in an expression."""
    if isinstance(node, (exp.AggFunc, exp.Subquery, exp.Select, exp.Window)):
        return False
    if isinstance(node, exp.Anonymous):
        known = node.name.lower() in ALLOWED or node.name.lower() in scalar_functions()
        return known or is_user_function(node)
    if isinstance(node, _OPERATORS) and not isinstance(node, exp.Func):
        return True
    if isinstance(node, exp.Func):
        names = {n.lower() for n in type(node).sql_names()} | {type(node).__name__.lower()}
        return (
            isinstance(node, _OPERATORS)
            or bool(names & ALLOWED)
            or bool({n.replace("_", "") for n in names} & _SQUEEZED)
            or name_in_sql(node) in scalar_functions()
        )
    return False


_SQUEEZED = {n.replace("_", "") for n in ALLOWED}
