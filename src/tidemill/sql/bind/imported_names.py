"""Names of other sites in a query that stands: each is replaced by the stream that delivers it here.

    FROM paris.Packets [WINDOW 3 SECONDS] B      becomes      FROM "paris.Packets#7" [WINDOW 3 SECONDS] B

Which stream that is was decided when the query was created, and is kept in the options of its entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from tidemill.sql.dialect.nodes import copy_tree

IMPORTS = "imports"  # the option: name of another site, or an item of FROM with it → name of the stream here
EVALUATED = "evaluated"  # the option: streams whose window and SYNC are evaluated where they come from
PLACED = "placed"  # the option: the stream that delivers the answer of the whole query, and its columns


def item_of(name: str, alias: str) -> str:
    """The key of one item of FROM that reads a name in a way of its own.

    >>> item_of("paris.Packets", "B")
    'paris.packets b'
    """
    return f"{name} {alias}".lower()


def replace_imported(query: exp.Expression, options: Mapping[str, Any]) -> exp.Expression:
    """The query with the names of streams of this catalog; the one given stays as it is."""
    if options.get(PLACED):
        stream, *columns = options[PLACED]
        listed = [exp.column(exp.to_identifier(c, quoted=True)) for c in columns]
        return exp.Select(expressions=listed).from_(exp.Table(this=exp.to_identifier(stream, quoted=True)))
    named: Mapping[str, str] = options.get(IMPORTS, {})
    if not named:
        return query
    evaluated = options.get(EVALUATED, ())
    query = copy_tree(query)
    for table in list(query.find_all(exp.Table)):
        name = f"{table.db}.{table.name}".lower() if table.args.get("db") else ""
        stream = named.get(item_of(name, table.alias_or_name), named.get(name))
        if stream is not None:
            if not table.args.get("alias"):
                table.set("alias", exp.TableAlias(this=table.this.copy()))
            identifier = exp.to_identifier(stream, quoted=True)
            identifier.meta.update(table.this.meta)
            table.set("this", identifier)
            table.set("db", None)
            if stream in evaluated:
                table.set("window", None)
                table.set("sync", None)
    return query
