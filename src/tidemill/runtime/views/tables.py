"""The tables that views live in: their names, their columns, and SELECTs over several of them."""

from __future__ import annotations

from tidemill.plan.relations import quoted
from tidemill.plan.sources import Column
from tidemill.runtime.duckdb.sql_text import hash_sql, name_list
from tidemill.runtime.views.stored_view import StoredView


def contents_table(owner: str) -> str:
    """Rows with their multiplicity `__n`; the owner is a view or a pool. An append-only view has its rows there as
    they are: what never changes is written once and never looked for.
    """
    return quoted(f"contents {owner}")


def recent_table(owner: str) -> str:
    """Changes of a large view that are not folded into its contents yet."""
    return quoted(f"recent {owner}")


def changes_table(owner: str) -> str:
    """Tagged changes."""
    return quoted(f"changes {owner}")


def tentative_table(owner: str) -> str:
    """Rows, with their multiplicity, that views show until the next rows come."""
    return quoted(f"tentative {owner}")


def tentative_changes_table(owner: str) -> str:
    """Tagged changes that views show until the next rows come."""
    return quoted(f"tentative-changes {owner}")


def history_table(owner: str) -> str:
    """Changes of views without a log: (row, time, copies). They stay while a view may be read as of before them."""
    return quoted(f"history {owner}")


POOLED = (contents_table, changes_table, tentative_table, tentative_changes_table, history_table)


def typed_column(column: Column) -> str:
    """SQL: a column of an Arrow table with the type that the view declares."""
    return f"CAST({quoted(column.name)} AS {column.type}) AS {quoted(column.name)}"


def definitions(view: StoredView) -> dict[str, str]:
    """Every table that a view lives in from its creation on, and the statement that makes it."""
    columns = ", ".join(f"{quoted(c.name)} {c.type}" for c in view.columns)
    found = {}
    if view.keeps_contents:
        own = [] if view.appends_contents else [contents_table(view.id), recent_table(view.id)]
        found = {name: f"(__h UBIGINT, {columns}, __n BIGINT)" for name in own}
        found[contents_table(view.pool)] = f"(__view VARCHAR, {columns}, __n BIGINT)"
        # The time is last: a database of an older version gets it as a column more.
        found[tentative_table(view.pool)] = f"(__view VARCHAR, {columns}, __n BIGINT, __time BIGINT)"
    if view.output != "streamed":
        found[history_table(view.pool)] = f"(__view VARCHAR, __time BIGINT, {columns}, __n BIGINT)"
    if view.output == "streamed":
        log = f"__time BIGINT, __batch BIGINT, __tag VARCHAR, {columns}, __old STRUCT({columns})"
        found[changes_table(view.id)] = f"({log})"
        found[changes_table(view.pool)] = f"(__view VARCHAR, {log})"
        found[tentative_changes_table(view.pool)] = f"(__view VARCHAR, {log})"
    return {name: _create(name, form) for name, form in found.items()}


def define_own_table(view: StoredView) -> str:
    """The statement that makes the own table of an append-only view, when it first moves out of its pool."""
    return _create(contents_table(view.id), f"({', '.join(f'{quoted(c.name)} {c.type}' for c in view.columns)})")


def _create(name: str, form: str) -> str:
    return f"CREATE TABLE IF NOT EXISTS {name} {form}"


def drop_table(table: str) -> str:
    """The statement that forgets a table."""
    return f"DROP TABLE IF EXISTS {table}"


def of_view(view: StoredView) -> str:
    """SQL: a row of a pool belongs to the view."""
    return f"__view = '{view.id}'"


def copies_sql(names: str, rows: str) -> str:
    """A SELECT of columns, each row `__n` times."""
    return f"SELECT {names} FROM {rows} CROSS JOIN LATERAL (SELECT unnest(range(__n))) AS copies"


def pooled_rows(view: StoredView) -> str:
    """The view's rows in the pool."""
    return f"(SELECT * FROM {contents_table(view.pool)} WHERE {of_view(view)})"


def tentative_rows(view: StoredView, before: int | None = None) -> str:
    """The view's rows that the next rows may take back; those of times before one."""
    earlier = "" if before is None else f" AND __time < {before}"
    return f"(SELECT * FROM {tentative_table(view.pool)} WHERE {of_view(view)}{earlier})"


def folded_contents(view: StoredView, *beside: str) -> str:
    """A SELECT of the contents with everything that waits folded in: (row, multiplicity). `beside` are FROM items with
    the view's columns and `__n` that are folded in too.
    """
    names, table = name_list(view.names), contents_table(view.id)
    pools = [pooled_rows(view), *beside]
    waiting = " UNION ALL ".join(
        [
            *(f"SELECT {hash_sql(view.names)} AS __h, {names}, __n FROM {pool}" for pool in pools),
            f"SELECT * FROM {recent_table(view.id)}",
        ]
    )
    return (
        f"WITH waiting AS ({waiting})"
        f" SELECT * FROM {table} WHERE __h NOT IN (SELECT __h FROM waiting) UNION ALL"
        f" SELECT __h, {names}, CAST(sum(__n) AS BIGINT) AS __n FROM (SELECT * FROM waiting UNION ALL"
        f" SELECT * FROM {table} WHERE __h IN (SELECT __h FROM waiting)) GROUP BY __h, {names} HAVING sum(__n) <> 0"
    )


def null_old(view: StoredView) -> str:
    """SQL: no earlier row."""
    return f"CAST(NULL AS STRUCT({', '.join(f'{quoted(c.name)} {c.type}' for c in view.columns)}))"
