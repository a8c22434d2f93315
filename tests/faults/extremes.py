"""The largest, smallest and strangest values of every column type, as DuckDB writes them."""

from __future__ import annotations

EXTREMES: dict[str, tuple[str, ...]] = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "127"),
    "SMALLINT": ("-32768", "32767"),
    "INTEGER": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"),
    "UTINYINT": ("255",),
    "USMALLINT": ("65535",),
    "UINTEGER": ("4294967295",),
    "UBIGINT": ("18446744073709551615",),
    "HUGEINT": (
        "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999",
        "170141183460469231731687303715884105727",
        "-170141183460469231731687303715884105728",
    ),
    "FLOAT": ("nan", "inf", "-inf", "3.4028235e38", "1e-45", "-0.0"),
    "DOUBLE": ("nan", "inf", "-inf", "1.7976931348623157e308", "5e-324", "-0.0"),
    "DECIMAL(38,0)": ("99999999999999999999999999999999999999", "-99999999999999999999999999999999999999"),
    "DECIMAL(1,1)": ("0.9", "-0.9"),
    "DECIMAL(38,38)": ("0.99999999999999999999999999999999999999", "-0.00000000000000000000000000000000000001"),
    "VARCHAR": ("", " ", "\x00", "a\x00b", "\u202eabc", "\U0001f30a", "\ufeff", "NaN", "\x1b[2J", "x" * 1_000_000),
    "BLOB": ("", "\\x00", "\\xFF\\xFE", "a\\x80b"),
    "DATE": (
        "infinity",
        "-infinity",
        "5874897-12-31",
        "294247-01-10",
        "10000-01-01",
        "0001-01-01 (BC)",
        "5877642-06-25 (BC)",
        "9999-12-31",
        "0001-01-01",
    ),
    "TIME": ("24:00:00", "00:00:00", "23:59:59.999999"),
    "TIMESTAMP": (
        "infinity",
        "-infinity",
        "294247-01-10 04:00:54.775806",
        "290309-12-22 (BC) 00:00:00",
        "10000-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "0001-01-01 00:00:00",
    ),
    "TIMESTAMP WITH TIME ZONE": (
        "infinity",
        "-infinity",
        "294247-01-10 04:00:54.775806+00",
        "290309-12-22 (BC) 00:00:00+00",
    ),
}
# Types that a source has no columns of, and views may compute.
COMPUTED: dict[str, tuple[str, ...]] = {
    "UUID": (
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "80000000-0000-0000-0000-000000000000",
    ),
    "INTERVAL": (
        "0 seconds",
        "14 months 3 days 4.5 seconds",
        "-14 months -3 days -4.5 seconds",
        "100 hours",
        "2147483647 months",
        "-2147483648 days",
        "9223372036854775807 microseconds",
        "-9223372036854775808 microseconds",
        "1 month -1 day 1 microsecond",
    ),
}
