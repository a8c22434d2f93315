"""NOW windows of a query inside those of a view: a narrower window over the view's rows, if it gives their TS."""

from __future__ import annotations

from tidemill.optimize.views.block import WindowBounds
from tidemill.optimize.views.canonical import Given, canonical
from tidemill.plan.scalars import ColumnRef, Scalar, Shift, shift_of


def is_inside(inner: WindowBounds, outer: WindowBounds) -> bool:
    """True when every row is in the outer window at all times at which it is in the inner one.

    >>> ts = ColumnRef("0.__ts")
    >>> ten, sixty = (WindowBounds(None, Shift(ts, "+", us)) for us in (10, 60))
    >>> is_inside(ten, sixty), is_inside(sixty, ten)
    (True, False)
    """
    return _is_beyond(inner.lower, outer.lower, 1) and _is_beyond(inner.upper, outer.upper, -1)


def _is_beyond(inner: Scalar | None, outer: Scalar | None, sign: int) -> bool:
    """Whether a bound is at the other one or inside of it; `sign` is 1 for lower bounds."""
    if outer is None:
        return True
    mine, theirs = (None if b is None else shift_of(b) for b in (inner, outer))
    if mine is None or theirs is None or mine[0] != theirs[0]:
        return False
    return (mine[1] - theirs[1]) * sign >= 0


def rewrite_window(window: WindowBounds, given: Given) -> WindowBounds | None:
    """The same window over the columns of a view; None where the view does not give the time stamp."""
    bounds = []
    for bound in (window.lower, window.upper):
        new = None if bound is None else _rewrite_bound(bound, given)
        if bound is not None and new is None:
            return None
        bounds.append(new)
    return WindowBounds(*bounds)


def _rewrite_bound(bound: Scalar, given: Given) -> Scalar | None:
    found = shift_of(bound)
    if found is None:
        return None
    time = given.times.get(canonical(ColumnRef(found[0])))
    if time is None:
        return None
    return Shift(time, "+" if found[1] >= 0 else "-", abs(found[1]))
