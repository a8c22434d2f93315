"""Every field of a parsed query is read, or refused where it is filled: nothing that was written is ignored.

The parser reads clauses of many dialects. Clauses are nodes of which the binder reads the fields in `READ`. Values are
written as text for DuckDB, without the fields in `DROPPED`, some of which it writes where others are filled, too. A
field in `STAMPED` is set by the parser itself, to tell dialects apart, or is what DuckDB does without it (TRIM of
BOTH). `tests/language/test_read_fields.py` finds out both from the parser's own classes.
"""

from __future__ import annotations

from functools import cache

from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidemill.errors import PlanProblem
from tidemill.sql.bind.scope import problem
from tidemill.sql.dialect.dialect import to_sql
from tidemill.sql.dialect.nodes import Difference, all_nodes, copy_tree
from tidemill.sql.lexical.tokens import position

_QUERY = "with_ order limit offset"
_SET = f"{_QUERY} this expression distinct by_name"
_CLAUSES: dict[type[exp.Expr], str] = {
    exp.Select: f"{_QUERY} expressions distinct from_ joins where group having qualify windows",
    exp.Union: _SET,
    exp.Except: _SET,
    exp.Intersect: _SET,
    exp.Subquery: f"{_QUERY} this alias sync window",
    exp.Table: "this alias db catalog joins version sync window",
    exp.Values: "expressions alias",
    exp.Unnest: "expressions alias offset",
    Difference: "this expression joins",
    exp.TableAlias: "this columns sync window",
    exp.Join: "this on side kind using method",
    exp.From: "this",
    exp.With: "expressions recursive",
    exp.CTE: "this alias materialized",  # how often it is computed is ours to say
    exp.Version: "this expression kind",
    exp.Where: "this",
    exp.Having: "this",
    exp.Qualify: "this",
    exp.Group: "expressions all",
    exp.GroupingSets: "expressions",
    exp.Rollup: "expressions",
    exp.Cube: "expressions",
    exp.Order: "this expressions",
    exp.Ordered: "this desc nulls_first with_fill",
    exp.Limit: "expression offset limit_options expressions",
    exp.Offset: "expression",
    exp.Fetch: "count direction limit_options",
    exp.LimitOptions: "rows percent with_ties",
    exp.Distinct: "expressions on",
    exp.Window: "this partition_by order spec alias over",
    exp.WindowSpec: "kind start start_side end end_side exclude",
    exp.Filter: "this expression",
    exp.WithinGroup: "this expression",
    exp.IgnoreNulls: "this",
    exp.RespectNulls: "this",
    exp.Explode: "this expressions",
    exp.GenerateSeries: "start end step is_end_exclusive",
    exp.Exists: "this",
    exp.Any: "this",
    exp.All: "this",
    exp.Star: "except_ replace rename ilike",
    exp.Count: "this expressions big_int",
    exp.GroupConcat: "this separator",
    exp.ArrayAgg: "this",
}
READ = {kind: frozenset(fields.split()) for kind, fields in _CLAUSES.items()}
_STAMPED = """
Array.bracket_notation ArraySort.asc ArraySort.nulls_first Bracket.offset Bracket.safe Bracket.returns_list_for_maps
Cast.safe Concat.safe ConcatWs.safe DPipe.safe DataType.nested DateDiff.date_part_boundary
DateTrunc.input_type_preserved Div.typed RegexpExtract.null_if_pos_overflow SHA2.length
TimestampTrunc.input_type_preserved Trim.position TryCast.safe
"""
STAMPED = frozenset(_STAMPED.split())
_DROPPED = """
Array.struct_name_inheritance Array.value_constructor ArrayConcat.null_propagation ArrayContains.ensure_variant
ArraySlice.is_length ArraySort.expression ArrayToString.null_delim_is_null Base64Encode.max_line_length
BitwiseAnd.padside BitwiseOr.padside BitwiseXor.padside Bracket.json_access Chr.charset Column.join_mark Column.shadow
ConcatWs.flatten DataType.kind DataType.nullable DataType.values DataTypeParam.expression DateDiff.big_int DateDiff.zone
DateTrunc.zone DatetimeDiff.date_part_boundary DatetimeTrunc.zone Decode.replace Identifier.global_ Identifier.temporary
Interval.fraction_in_string JSONArray.null_handling JSONArray.return_type JSONArray.strict JSONCast.safe
JSONExists.from_dcolonqmark JSONExtract.emits JSONExtract.json_query JSONExtract.on_condition
JSONExtract.only_json_types JSONExtract.option JSONExtract.quote JSONExtract.requires_json JSONExtract.variant_extract
JSONExtractScalar.expressions JSONExtractScalar.json_subtype JSONExtractScalar.json_type
JSONExtractScalar.only_json_types JSONObject.encoding JSONObject.null_handling JSONObject.return_type
JSONObject.unique_keys Length.encoding Levenshtein.del_cost Levenshtein.ins_cost Levenshtein.sub_cost LowerHex.case
MD5Digest.expressions MapInsert.update_flag Match.analyzer Match.kind MonthsBetween.roundoff ObjectInsert.update_flag
ParseDatetime.zone ParseJSON.expression ParseJSON.is_literal Pseudocolumn.join_mark Pseudocolumn.shadow Reduce.finish
RegexpExtract.empty_if_group_missing RegexpExtract.parameters RegexpExtractAll.parameters RegexpILike.flag
RegexpReplace.modifiers RegexpReplace.position Round.casts_non_integer_decimals SHA2Digest.length Split.limit
StrPosition.clamp_position StrPosition.occurrence StrToDate.default_year StrToDate.nlsparam StrToTime.nlsparam
StrToTime.target_type StrToTime.zone Substring.zero_start TimeSlice.kind TimeToStr.culture TimeToStr.zone
TimestampTrunc.zone TimestampTzFromParts.nano ToBinary.format Trim.collation Trunc.fractions_supported
TryCast.null_on_text_overflow TryCast.probe_date_format TryCast.requires_string TsOrDsToDate.default_date
UnixToTime.format UnixToTime.hours UnixToTime.minutes UnixToTime.target_type UnixToTime.zone
"""
DROPPED = frozenset(_DROPPED.split())
_HINTS = {
    "sample": "a standing answer has no random rows:  WHERE hash(key) % 100 = 0  keeps a share that stays",
    "locks": "leave it out: readers never wait",
    "into": "CREATE VIEW name AS SELECT …",
}


def refuse_unread(query: exp.Expression) -> None:
    """Refuse the first clause or argument of a query that its answer would not depend on."""
    for node in all_nodes(query):
        for field, value in node.args.items():
            if value and not is_read(type(node), field) and not _is_written(node, field):
                raise _unread(node, field, value, query)
        if isinstance(node, exp.Join) and node.this.args.get("joins"):
            raise problem(
                "joins that are nested without parentheses are not possible",
                node.this,
                code="TM202",
                hint="write ON behind each join:  FROM a JOIN b ON … JOIN c ON …",
            )


def is_read(kind: type[exp.Expr], field: str) -> bool:
    """Whether the answer depends on a field of a node of this class, or the parser fills it by itself."""
    read = READ.get(kind)
    return field in read if read is not None else field not in _dropped_of(kind.__name__)


def _is_written(node: exp.Expr, field: str) -> bool:
    """Whether DuckDB's text of this very value depends on the field: beside some arguments it writes others, too."""
    if type(node) in READ:
        return False
    without = copy_tree(node)
    without.set(field, None)
    try:
        return to_sql(without) != to_sql(node)
    except SqlglotError:
        return False


@cache
def _dropped_of(kind: str) -> frozenset[str]:
    return frozenset(name for owner, name in (pair.split(".") for pair in DROPPED) if owner == kind)


def _unread(node: exp.Expr, field: str, value: object, query: exp.Expression) -> PlanProblem:
    word = "into" if field == "into" else field.strip("_").replace("_", " ")
    inner = value[0] if isinstance(value, list) else value
    places = [n for n in (inner, node) if isinstance(n, exp.Expr)]
    place = next((n for p in places for n in all_nodes(p) if position(n) is not None), query)
    what = f"{word} of {node.key}" if node.key != "select" else word
    return problem(
        f"{what} is not possible in a standing query",
        place,
        code="TM202",
        hint=_HINTS.get(field, "leave it out, or use it when you read the answer, with an ad hoc SELECT"),
    )
