"""Pieces of SQL text that several rooms write."""

from __future__ import annotations

from tidemill.plan.relations import quoted


def hash_sql(names: tuple[str, ...] | list[str]) -> str:
    """SQL for the hash by which rows are arranged and sharded; keyless rows share one hash."""
    return f"hash({', '.join(quoted(n) for n in names)})" if names else "CAST(0 AS UBIGINT)"


def name_list(names: tuple[str, ...] | list[str]) -> str:
    """Quoted names, comma separated."""
    return ", ".join(quoted(n) for n in names)


def same_row(names: tuple[str, ...] | list[str], left: str, right: str) -> str:
    """SQL: the two rows agree on all columns, NULL equal to NULL."""
    tests = [f"{left}.{quoted(n)} IS NOT DISTINCT FROM {right}.{quoted(n)}" for n in names]
    return " AND ".join(tests) if tests else "TRUE"
