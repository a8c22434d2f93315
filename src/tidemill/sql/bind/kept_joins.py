"""WITH (keep = '1 day'): joins of endless streams forget rows, and what is then missing is known exactly.

Two rows of streams that take no rows back are joined only where their times are at most `keep` apart. So every such
join is a band join, whose rows go when the time of their last partner is closed:

    A JOIN B ON A.k = B.k    →    A JOIN B ON A.k = B.k AND B.TS >= A.TS - keep AND B.TS <= A.TS + keep

Keyed streams, windows, tables and joins with the past stay as they are: their state is bounded by itself.
"""

from __future__ import annotations

from sqlglot import exp

from tidemill.plan import relations as r
from tidemill.plan.released import release_chains
from tidemill.sql.bind.scope import Input, problem


def add_bands(joins: list[exp.Join], inputs: list[Input], keep_us: int | None) -> bool:
    """Join rows of endless streams only where their times are near each other, and say whether there are such. The
    clauses are changed.
    """
    found = False
    if keep_us is None:
        return found
    for i, clause in enumerate(joins):
        right = inputs[i + 1]
        if clause.args.get("method") or clause.this.args.get("version") is not None or not _is_endless(right):
            continue
        bands = [b for left in inputs[: i + 1] if _is_endless(left) for b in _band(left, right, keep_us)]
        if bands:
            clause.set("on", exp.and_(*([clause.args["on"]] if clause.args.get("on") else []), *bands, copy=False))
            found = True
    return found


def check_forgets(keep_us: int | None, forgets: bool) -> None:
    """Refuse `keep` where nothing is forgotten because of it."""
    if keep_us is not None and not forgets:
        raise problem(
            "keep has no effect here: no join of this query keeps rows of streams without a key",
            None,
            code="TM213",
            hint="leave it out; groups of a window are forgotten with it:  FROM S [WINDOW 1 DAY] … GROUP BY k",
        )


def _is_endless(item: Input) -> bool:
    """True for a stream that keeps all its rows, each of which has come when its time is closed."""
    return item.ts is not None and r.append_only(item.node) and release_chains(item.node, item.ts) is not None


def _band(left: Input, right: Input, keep_us: int) -> list[exp.Expression]:
    interval = exp.Interval(this=exp.Literal.string(str(keep_us)), unit=exp.var("MICROSECONDS"))
    ours, theirs = exp.column("TS", table=left.alias, quoted=True), exp.column("TS", table=right.alias, quoted=True)
    return [
        exp.GTE(this=theirs, expression=exp.Sub(this=ours, expression=interval)),
        exp.LTE(this=theirs.copy(), expression=exp.Add(this=ours.copy(), expression=interval.copy())),
    ]
