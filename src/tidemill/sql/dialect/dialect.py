"""The query language: DuckDB's, plus synchronization, windows, difference, NOW and chains.

The trees are ordinary sqlglot trees with the additions of `nodes`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokens import TokenType

from tidemill.sql.arguments import check_arguments
from tidemill.sql.dialect.from_items import FUNCTIONS, hoist, parse_refinements, parse_window_function, select_values
from tidemill.sql.dialect.nodes import Difference, Now, PlanColumn, Sync
from tidemill.sql.lexical import tokens
from tidemill.sql.lexical.cursor import Cursor
from tidemill.sql.lexical.durations import UNITS_US

T = TypeVar("T")

# The middle operand of a chain is in the tree twice, so nested chains would grow exponentially.
MAX_CHAINED = 200

_SPOKEN_UNITS = {unit for unit in UNITS_US if len(unit) > 3}
_OPERAND_STARTS = {
    TokenType.NUMBER,
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.L_PAREN,
    TokenType.CASE,
    TokenType.DASH,
    TokenType.PLUS,
}

_FRAME_BOUNDS = {"BETWEEN", "UNBOUNDED", "CURRENT"}


# The inherited parser forgets how these sort NULLs, and in which direction.
_SORTS = ("LIST_SORT", "ARRAY_SORT", "LIST_REVERSE_SORT", "ARRAY_REVERSE_SORT")


class TidemillParser(DuckDBParser):
    """Reads queries and nothing else."""

    FUNCTIONS: ClassVar = {name: call for name, call in DuckDBParser.FUNCTIONS.items() if name not in _SORTS}

    NO_PAREN_FUNCTION_PARSERS: ClassVar = {
        **DuckDBParser.NO_PAREN_FUNCTION_PARSERS,
        "NOW": lambda self: self._parse_now(),
        "@": lambda self: self.expression(exp.Abs(this=self._parse_bitwise())),
    }
    UNARY_PARSERS: ClassVar = {**DuckDBParser.UNARY_PARSERS, TokenType.NOT: lambda self: self._parse_not()}
    FUNC_TOKENS: ClassVar = {*DuckDBParser.FUNC_TOKENS, TokenType.SESSION}
    CHAINED: ClassVar = {**DuckDBParser.COMPARISON, TokenType.EQ: exp.EQ, TokenType.NEQ: exp.NEQ}

    def _parse_statement(self) -> exp.Expr | None:
        query = self._parse_wrapped_select()
        if query is None:
            self.raise_error("Expected a query")
            return None
        hoist(query)
        return select_values(query)

    def _parse_query_modifiers(self, this: Any) -> Any:
        token = self._curr
        this = super()._parse_query_modifiers(this)
        if isinstance(this, exp.Select) and not this.args.get("from_") and this.args.get("joins"):
            self.raise_error("A join without FROM", token)
        return this

    # -- FROM

    def _parse_table(  # type: ignore[override]  # the other arguments are passed on by name
        self, schema: bool = False, joins: bool = False, **kwargs: Any
    ) -> exp.Expr | None:
        """One FROM item or a difference of several, a - b - c read from the left."""
        if schema or kwargs.get("is_db_reference"):
            return super()._parse_table(schema=schema, joins=joins, **kwargs)
        item = self._parse_relation(**kwargs)
        while item is not None and self._match(TokenType.DASH):
            right = self._parse_relation(**kwargs)
            item = self.expression(Difference(this=item, expression=right))
        if joins and item is not None:
            for join in self._parse_joins(alias_tokens=kwargs.get("alias_tokens")):
                item.append("joins", join)
        return item

    def _parse_relation(self, **kwargs: Any) -> exp.Expr | None:
        if self._match(TokenType.LATERAL):
            # Every subquery may read the items before it, so the word says nothing more.
            token, item = self._curr, self._parse_relation(**kwargs)
            if not isinstance(item, (exp.Subquery, exp.Unnest, exp.Values)):
                self.raise_error("Expected a subquery or UNNEST", token)
            return item
        if self._match_text_seq("R", "("):
            return self._parse_relation_of()
        if self._match_text_seq("TABLE", "("):
            item = self._parse_window_function()
            if item is None:
                self.raise_error(f"Expected {' or '.join(FUNCTIONS)}")
            self._match_r_paren()
            return self._parse_function_alias(item)
        function = self._parse_window_function()
        return super()._parse_table(**kwargs) if function is None else self._parse_function_alias(function)

    def _parse_window_function(self) -> Any:
        """TUMBLE(TABLE s, DESCRIPTOR(at), …) and its like; None where there is none."""
        name, token = self._curr.text.upper() if self._curr else "", self._curr
        if name not in FUNCTIONS or self._next.token_type != TokenType.L_PAREN:
            return None
        self._advance(2)
        self._match_text_seq("TABLE")
        item: Any = self._parse_table_parts()
        cursor = self._cursor()
        item.set("window", parse_window_function(cursor, name, (token.line, token.col)))
        self._follow(cursor)
        return item

    def _parse_function_alias(self, item: Any) -> Any:
        if alias := self._parse_table_alias():
            item.set("alias", alias)
        return item

    def _parse_relation_of(self) -> exp.Expr:
        """The paper's R(S) and R(S, Sync), behind the parenthesis."""
        if self._match_set((TokenType.L_PAREN, TokenType.SELECT, TokenType.WITH), advance=False):
            wrapped = self._match(TokenType.L_PAREN)
            item: Any = exp.Subquery(this=self._parse_wrapped_select())
            if wrapped:
                self._match_r_paren()
        else:
            item = self._parse_table_parts()
        if self._match(TokenType.COMMA):
            cursor, token = self._cursor(), self._curr
            item.set("sync", Sync(on=cursor.take_name("a view of time points"), place=(token.line, token.col)))
            self._follow(cursor)
        self._match_r_paren()
        if alias := self._parse_table_alias():
            item.set("alias", alias)
        return item

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        """An alias with the clauses before and behind it; `hoist` brings them to their item."""
        found: dict[str, Any] = {}
        self._parse_clauses(found)
        alias = super()._parse_table_alias(alias_tokens=alias_tokens)
        self._parse_clauses(found)
        if found:
            alias = alias or exp.TableAlias()
            for key, clause in found.items():
                alias.set(key, clause)
        return alias

    def _parse_clauses(self, found: dict[str, Any]) -> None:
        cursor = self._cursor()
        parse_refinements(cursor, found)
        self._follow(cursor)

    def _parse_id_var(self, any_token: bool = True, tokens: Collection[TokenType] | None = None) -> exp.Expr | None:
        """A name; GROUPS at the beginning of a window is its frame, not the name of another window."""
        if tokens is self.WINDOW_ALIAS_TOKENS and self._begins_frame():
            return None
        return super()._parse_id_var(any_token=any_token, tokens=tokens)

    def _begins_frame(self) -> bool:
        """Whether GROUPS is next, and behind it the bound of a frame."""
        if not self._curr or not self._next or self._curr.text.upper() != "GROUPS":
            return False
        return self._next.text.upper() in _FRAME_BOUNDS or self._next.token_type == TokenType.NUMBER

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        # Behind a table a bracket is a window, which belongs to the alias.
        return this if isinstance(this, exp.Table) else self._transform_list(super()._parse_bracket(this))

    def _transform_list(self, this: exp.Expr | None) -> exp.Expr | None:
        """[x + 1 FOR x IN list IF x > 0] as list_transform(list_filter(list, …), …)."""
        inner = this.expressions[0] if isinstance(this, exp.Array) and len(this.expressions) == 1 else None
        if not isinstance(inner, exp.Comprehension) or inner.args.get("position"):
            return this
        found, name = inner.args["iterator"], inner.expression
        for function, body in (("list_filter", inner.args.get("condition")), ("list_transform", inner.this)):
            if body is not None:
                call = exp.Lambda(this=self._replace_lambda(body, [name.copy()]), expressions=[name.copy()])
                found = exp.Anonymous(this=function, expressions=[found, call])
        return found

    def _parse_table_hints(self) -> None:
        return None

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        # The inherited parser backtracks at a comma and loses the position of an error.
        if self._match(TokenType.COMMA):
            table = self._parse_table(alias_tokens=kwargs.get("alias_tokens"))
            return self.expression(exp.Join(this=table))
        join = super()._parse_join(*args, **kwargs)
        if join and not any(join.args.get(key) for key in ("on", "using", "method")) and join.kind != "CROSS":
            self.raise_error("Expected ON or USING")
        return join

    def _parse_lateral(self) -> None:
        return None

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:
        """GROUP BY time/5 AS tb: a key may have a name, which SELECT can use."""
        group = super()._parse_group(skip_group_by_token)
        while group is not None and group.expressions and self._match(TokenType.ALIAS, advance=False):
            *others, last = group.expressions
            keys = [*others, self._parse_alias(last, explicit=True)]
            if self._match(TokenType.COMMA):
                more = super()._parse_group(skip_group_by_token=True)
                keys += more.expressions if more is not None else []
            group.set("expressions", keys)
        return group

    # -- expressions

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """a < b <= c means a < b AND b <= c, for all six comparisons."""
        left = this or self._parse_range()
        links: list[exp.Expr] = []
        while self._match_set(self.CHAINED):
            kind = self.CHAINED[self._prev.token_type]
            right = self._parse_range()
            links.append(self._build_predicate(kind, self._copy_operand(left) if links else left, right))
            left = right
        if not links:
            return left
        return links[0] if len(links) == 1 else exp.and_(*links, copy=False, wrap=False)

    def _parse_conjunction(self) -> exp.Expr | None:
        """The links of a chain become part of the surrounding conjunction, so that a AND b < c < d is flat."""
        this = self._parse_equality()
        while self._match_set(self.CONJUNCTION):
            right = self._parse_equality()
            for link in right.flatten(unnest=False) if isinstance(right, exp.And) else [right]:
                this = self.expression(exp.And(this=this, expression=link))
        return this

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        begin, name = self._index, self._curr
        call = self._next.token_type == TokenType.L_PAREN
        if call:
            check_arguments(self._tokens, begin)
        found = super()._parse_function_call(*args, **kwargs)
        if call and found is not None:
            # The parser gives synonyms of a function one name; errors show the name that was written.
            inner = found.this if isinstance(found, (exp.Window, exp.Filter)) else found
            inner.meta["written"] = name.text.lower()
        return found

    def _parse_not(self) -> exp.Not:
        operand = self._parse_equality()
        if isinstance(operand, exp.And):
            operand = exp.Paren(this=operand)
        return self.expression(exp.Not(this=operand))

    def _copy_operand(self, operand: exp.Expr | None) -> exp.Expr | None:
        if operand is None:
            return None
        if sum(1 for _ in operand.walk()) > MAX_CHAINED:
            raise tokens.problem(
                "TM104",
                "the middle of a chain of comparisons is too long",
                self._prev,
                hint="write the comparisons apart, with AND",
            )
        return operand.copy()

    def _parse_now(self) -> Now:
        node = Now().update_positions(self._prev)
        self._match_text_seq("(", ")")
        return node

    def _parse_factor_operand(self) -> exp.Expr | None:
        if self._is_spoken_interval():
            return self._parse_spoken_interval()
        operand = super()._parse_factor_operand()
        # Behind an operand and before another one, the word MOD is an operator.
        is_mod = self._curr.token_type == TokenType.VAR and self._curr.text.upper() == "MOD"
        if operand is not None and is_mod and self._next.token_type in _OPERAND_STARTS:
            self._curr.token_type = TokenType.MOD
        return operand

    def _is_spoken_interval(self) -> bool:
        return (
            self._prev.token_type in self.TERM
            and self._curr.token_type == TokenType.NUMBER
            and self._next.token_type == TokenType.VAR
            and self._next.text.upper() in _SPOKEN_UNITS
        )

    def _parse_spoken_interval(self) -> exp.Interval:
        """NOW - 5 MINUTES: only behind + and -, elsewhere the word is an alias."""
        self._advance(2)
        number, unit = self._tokens[self._index - 2], self._prev
        return self.expression(exp.Interval(this=exp.Literal.string(number.text), unit=exp.var(unit.text.upper())))

    def _parse_projections(self) -> tuple[list[exp.Expr], list[exp.Expr] | None]:
        projections, exclude = super()._parse_projections()
        if not projections:
            self.raise_error("Expected columns")
        return projections, exclude

    def _parse_csv(self, parse_method: Callable[[], T | None], sep: TokenType = TokenType.COMMA) -> list[T]:
        """A comma without an item after it is an error; the inherited parser accepts it."""
        first = parse_method()
        items = [] if first is None else [first]
        while self._match(sep):
            item = parse_method()
            if item is None:
                self.raise_error("Expected something after the comma")
            else:
                items.append(item)
        return items

    def _cursor(self) -> Cursor:
        return Cursor(self._tokens, self.sql, self._index)

    def _follow(self, cursor: Cursor) -> None:
        self._advance(cursor.index - self._index)


class TidemillGenerator(DuckDBGenerator):
    """Writes what TidemillParser reads."""

    # A name that was read without quotes is written without them: with quotes it would be a different tree.
    RESERVED_KEYWORDS: ClassVar = set()
    TRANSFORMS: ClassVar = {
        **DuckDBGenerator.TRANSFORMS,
        Now: lambda self, node: "NOW",
        PlanColumn: lambda self, node: exp.to_identifier(node.name, quoted=True).sql(dialect="duckdb"),
        Difference: lambda self, node: self.difference(node),
    }

    def difference(self, node: Difference) -> str:
        joins = self.expressions(node, key="joins", sep="", flat=True)
        return f"{self.sql(node, 'this')} - {self.sql(node, 'expression')}{joins}"

    def table_parts(self, expression: exp.Table) -> str:
        parts, window = super().table_parts(expression), expression.args.get("window")
        whole = parts if window is None or window.column is None else window.around(parts)
        return whole + _render_clauses(expression)

    def wrap(self, expression: exp.Expr | str) -> str:
        wrapped = super().wrap(expression)
        return wrapped + _render_clauses(expression) if isinstance(expression, exp.Subquery) else wrapped


class Tidemill(DuckDB):
    """The dialect, for parse and sql()."""

    Tokenizer = tokens.Tokenizer
    Parser = TidemillParser
    Generator = TidemillGenerator


def to_sql(query: exp.Expr) -> str:
    """One line of text that parses to the same tree."""
    return query.sql(dialect=Tidemill)


def _render_clauses(item: exp.Expr) -> str:
    window = item.args.get("window")
    found = (item.args.get("sync"), None if window is None or window.column is not None else window)
    return "".join(f" {clause.sql()}" for clause in found if clause is not None)
