"""Catalog queries of Postgres, rewritten for DuckDB over the shadow relations. What is not known is refused: nothing
but these relations and functions can be reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tidemill.serve.postgres.catalog.functions import CALLS, MACROS, NAMES, PREFIX, SCALARS, TABLE_FUNCTIONS
from tidemill.serve.postgres.catalog.relations import INFORMATION, RELATIONS
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.settings import SERVER_VERSION
from tidemill.version import __version__

MOST_TEXT = 100_000
_SPELLINGS = [
    (re.compile(r"OPERATOR\s*\(\s*pg_catalog\.([^\s)]+)\s*\)", re.I), r" \1 "),
    (re.compile(r"\s+COLLATE\s+(?:pg_catalog\s*\.\s*)?\"?(?:default|C)\"?", re.I), " "),
    (re.compile(r"(::|\bAS\s+)\s*pg_catalog\s*\.\s*", re.I), r"\1"),
    (re.compile(r"(::|\bAS\s+)\s*information_schema\s*\.\s*\w+", re.I), r"\1text"),
    (re.compile(r"::\s*\"char\"(\[\])?", re.I), r"::text\1"),
    (re.compile(r"::\s*(?:name|cstring|xid|aclitem|regrole|regproc|regprocedure|regoper)\b(\[\])?", re.I), r"::text\1"),
    (re.compile(r"::\s*oid\b(\[\])?", re.I), r"::uinteger\1"),
    (re.compile(r"::\s*(?:int2|int4)\b(\[\])?", re.I), r"::bigint\1"),
    (re.compile(r"::\s*(?:oidvector|int2vector)\b", re.I), "::bigint[]"),
    (re.compile(r"\bCAST\s*\(\s*(\w+(?:\.\w+)?)\s+AS\s+OID\s*\)", re.I), r"CAST(\1 AS uinteger)"),
]
_REG = {"REGCLASS": "regclass", "REGTYPE": "regtype", "REGNAMESPACE": "regnamespace"}
_ROOTS = (exp.Select, exp.SetOperation, exp.Subquery, exp.Values)

Context = Mapping[str, str]
Setting = Callable[[str], str]


def rewrite(text: str, context: Context, setting: Setting) -> str:
    """SQL for the shadow database. `context` has the user, the database and the process; `setting` the parameters."""
    if len(text) > MOST_TEXT:
        raise ProtocolProblem("54000", f"a catalog query has at most {MOST_TEXT:,} characters")
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    try:
        tree = parse_one(text, read="postgres")
    except (SqlglotError, RecursionError) as error:
        raise ProtocolProblem("42601", f"the catalog query cannot be read: {str(error).splitlines()[0]}") from None
    if not isinstance(tree, _ROOTS):
        raise ProtocolProblem("0A000", "only SELECT can read the catalog")
    return _Rewriter(context, setting).rewrite(tree).sql(dialect="duckdb")


class _Rewriter:
    def __init__(self, context: Context, setting: Setting) -> None:
        self._context, self._setting = context, setting

    def rewrite(self, tree: exp.Expr) -> exp.Expr:
        tree = _replace_all(tree, self._drop_schemas)
        known = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            self._replace_table(table, known)
        return _replace_all(tree, self._replace)

    def _drop_schemas(self, node: exp.Expr) -> exp.Expr:
        """pg_catalog.f(x) is f(x), and a column is named without the schema of its table."""
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            name = node.this.name.lower()
            if name in ("pg_catalog", "information_schema"):
                return node.expression
        if isinstance(node, exp.Column) and node.args.get("db"):
            node.set("db", None)
            node.set("catalog", None)
        return node

    def _replace_table(self, table: exp.Table, known: set[str]) -> None:
        if isinstance(table.this, exp.Func):
            table.set("db", None)
            _select_scalar(table)
            return
        name, schema = table.name.lower(), table.db.lower()
        if not schema and name in known:
            return
        if schema in ("", "pg_catalog") and name in RELATIONS:
            place = "pg"
        elif schema == "information_schema" and name in INFORMATION:
            place = "info"
        else:
            raise ProtocolProblem(
                "42P01",
                f'relation "{table.sql(dialect="postgres")}" does not exist in the catalog',
                hint="views and catalog relations cannot be read in one query",
            )
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
        table.set("this", exp.to_identifier(name))
        table.set("db", exp.to_identifier(place))
        table.set("catalog", None)

    def _replace(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast):
            return self._replace_cast(node)
        if isinstance(node, (exp.RegexpLike, exp.RegexpILike)):
            return exp.RegexpILike(this=node.this, expression=node.expression)
        if isinstance(node, (exp.Any, exp.All)) and isinstance(node.this.unnest(), exp.Literal):
            return type(node)(this=_array_of(node.this.unnest().name))
        if isinstance(node, exp.ByteString):  # E'…'
            return exp.Literal.string(node.name)
        if isinstance(node, exp.Column) and not node.table:
            return self._replace_word(node)
        writes = isinstance(node, (exp.Into, exp.Lock, exp.Command, exp.DDL, exp.DML)) and not isinstance(
            node, exp.Query
        )
        if writes or (isinstance(node, exp.CTE) and not isinstance(node.this, exp.Query)):
            raise ProtocolProblem("0A000", "a catalog query only reads")
        if isinstance(node, exp.Func):
            return self._replace_call(node)
        return node

    def _replace_word(self, node: exp.Column) -> exp.Expr:
        name = node.name.lower()
        quoted = node.this.args.get("quoted") if isinstance(node.this, exp.Identifier) else True
        value = None if quoted else self._words().get(name)
        return node if value is None else _keep_name(node, name, exp.Literal.string(value))

    def _words(self) -> dict[str, str]:
        user, database = self._context["user"], self._context["database"]
        users = dict.fromkeys(("current_user", "session_user", "current_role", "user"), user)
        return users | {"current_catalog": database, "current_schema": "public"}

    def _replace_cast(self, node: exp.Cast) -> exp.Expr:
        """'v'::regclass is the number of v, and oid::regclass its name."""
        kind = _REG.get(node.to.sql(dialect="postgres").upper())
        if kind is None:
            return node
        inner = node.this
        if isinstance(inner, exp.Literal) and inner.is_string:
            if inner.name.isdigit():
                return exp.Literal.number(inner.name)
            return exp.Anonymous(this=f"{PREFIX}{kind}_oid", expressions=[exp.Literal.string(inner.name.strip('"'))])
        if kind == "regtype":
            return exp.Anonymous(this=f"{PREFIX}format_type", expressions=[inner, exp.Literal.number(-1)])
        return exp.Anonymous(this=f"{PREFIX}regclass_name", expressions=[inner])

    def _replace_call(self, node: exp.Func) -> exp.Expr:
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.sql_name().lower()
        value = self._value(name, node)
        if value is not None:
            return _keep_name(node, name.replace("current_version", "version"), value)
        if isinstance(node, exp.Anonymous):
            if name in MACROS or name in TABLE_FUNCTIONS:
                node.set("this", PREFIX + name)
                return node
            if name.startswith(PREFIX) and name[len(PREFIX) :] in MACROS:
                return node
            if name in NAMES:
                return node
        elif node.key in CALLS:
            return node
        elif name in MACROS:  # a function that the parser has a class for
            return exp.Anonymous(this=PREFIX + name, expressions=list(node.iter_expressions()))
        raise ProtocolProblem("42883", f"function {name} does not exist in the catalog")

    def _value(self, name: str, node: exp.Func) -> exp.Expr | None:
        """The value of a function about the session."""
        if name in ("version", "current_version"):
            text = f"PostgreSQL {SERVER_VERSION} (Tidemill {__version__})"
            return exp.Literal.string(text)
        if name in ("current_database", "current_schema", "current_user", "session_user", "current_catalog"):
            words = {**self._words(), "current_database": self._context["database"]}
            return exp.Literal.string(words[name])
        if name == "json_build_object":  # of sequences and collations, which there are not
            return exp.Null()
        if name == "pg_backend_pid":
            return exp.Literal.number(self._context["process"])
        if name in ("current_setting", "set_config"):
            given = next((e for e in node.find_all(exp.Literal) if e.is_string), None)
            return exp.Literal.string(self._read_setting(given.name if given else "", name, node))
        return None

    def _read_setting(self, name: str, function: str, node: exp.Func) -> str:
        try:
            return self._setting(name)
        except ProtocolProblem:
            if function == "current_setting" and len(list(node.find_all(exp.Literal, exp.Boolean))) > 1:
                return ""
            raise


def _replace_all(tree: exp.Expr, function: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace every node by what the function makes of it, inner ones first."""
    for node in reversed(list(tree.walk(bfs=True))):
        made = function(node)
        if made is not node:
            if node is tree:
                tree = made
            else:
                node.replace(made)
    return tree


def _select_scalar(table: exp.Table) -> None:
    """FROM string_to_array(a, b) s is FROM (SELECT string_to_array(a, b) AS s) AS s: one row, as in Postgres."""
    call = table.this
    name = call.name.lower() if isinstance(call, exp.Anonymous) else call.sql_name().lower()
    if name not in SCALARS:
        return
    alias = table.alias or name
    columns = table.alias_column_names
    value = exp.alias_(call.copy(), columns[0] if columns else alias)
    table.replace(exp.select(value).subquery(alias))


def _keep_name(node: exp.Expr, name: str, value: exp.Expr) -> exp.Expr:
    """A value that keeps the name of the column it stands for."""
    return exp.alias_(value, name) if isinstance(node.parent, exp.Select) and node.arg_key == "expressions" else value


def _array_of(text: str) -> exp.Array:
    items = text.strip("{}").split(",") if text.strip("{}") else []
    return exp.Array(expressions=[exp.Literal.string(item.strip('"')) for item in items])
