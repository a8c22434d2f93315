"""How many arguments the functions of DuckDB take. The parser also reads other dialects: it accepts more arguments
than DuckDB does, and drops those that it has no use for.
"""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType

from tidemill.sql.lexical.tokens import problem

_MOST = {
    0: "pi",
    1: """abs acos ascii asin atan bin bit_count cbrt ceil ceiling char_length character_length chr cos day day_of_month
    day_of_week day_of_year dayname dayofmonth dayofweek dayofyear degrees epoch epoch_ms epoch_ns epoch_us even
    exp extract factorial floor hex hour initcap is_inf is_nan isfinite isinf isnan isodow last_day lcase length
    ln log10 log2 lower md5 microsecond millisecond minute month monthname ord quarter radians reverse second
    sha256 sign sin sqrt strlen tan time_to_unix to_days to_hex to_hours to_microseconds to_milliseconds
    to_minutes to_seconds to_timestamp ts_or_ds_to_date ucase unhex unicode unix_to_time upper week week_of_year
    weekday year""",
    2: """age array_contains atan2 contains date_add date_part date_trunc datepart datetrunc ends_with gcd ifnull instr
    int_div jaccard json_extract json_extract_scalar json_extract_string lcm left levenshtein list_contains log
    ltrim mod nullif position pow power prefix repeat right round rtrim safe_divide sha2 split starts_with
    str_position str_split str_to_date str_to_time strftime string_split string_to_array strpos strptime suffix
    time_to_str timestamp_trunc trim trunc try_strptime""",
    3: """date_bin date_diff date_from_parts date_sub dateadd datediff datesub if like_escape lpad make_date make_time
    pad regexp_full_match regexp_like regexp_matches replace rpad split_part substr substring time_bucket
    time_from_parts translate""",
    4: "regexp_extract regexp_replace",
    6: "make_timestamp",
}
_LEAST = {
    1: "format initcap log10 log2 printf",
    2: """date_bin date_part date_trunc datetrunc ifnull json_extract json_extract_string levenshtein nullif pow power
    regexp_extract regexp_matches starts_with strftime strptime time_bucket""",
    3: "date_diff date_sub datediff datesub split_part",
}
# An unquoted word would be taken for a part of the time, whatever column has that name.
_PARTS = {"date_trunc", "datetrunc", "date_diff", "datediff"}
_MOST_OF = {name: most for most, names in _MOST.items() for name in names.split()}
_LEAST_OF = {name: least for least, names in _LEAST.items() for name in names.split()}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE}


def check_arguments(tokens: list[Token], at: int) -> None:
    """Refuse the call whose name is at this place in the text if it has arguments that the parser would drop."""
    name, given = tokens[at].text.lower(), _count_arguments(tokens, at + 2)
    least, most = _LEAST_OF.get(name, 0), _MOST_OF.get(name, given)
    if not least <= given <= most:
        wanted = f"{'at most' if given > most else 'at least'} {most if given > most else least}"
        raise problem(
            "TM203",
            f"{name} takes {wanted} argument{'' if wanted[-2:] == ' 1' else 's'},"
            f" here {'is' if given == 1 else 'are'} {given}",
            tokens[at],
            hint="the language reference lists all functions",
        )
    if name in _PARTS and tokens[at + 2].token_type != TokenType.STRING:
        raise problem(
            "TM203",
            f"the first argument of {name} is a text in single quotes",
            tokens[at + 2],
            hint=f"{name}('hour', …)",
        )


def _count_arguments(tokens: list[Token], begin: int) -> int:
    """How many arguments begin here, behind the parenthesis."""
    depth, commas = 0, 0
    for index in range(begin, len(tokens)):
        kind = tokens[index].token_type
        if kind in _CLOSING and depth == 0:
            return commas + 1 if index > begin else 0
        depth += (kind in _OPENING) - (kind in _CLOSING)
        commas += kind == TokenType.COMMA and depth == 0
    return commas
