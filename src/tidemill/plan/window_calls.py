"""Calls of window functions: what they compute, over which rows of a partition, in which order.

Functions that count rows (`row_number`, `ntile`, `lag`, `lead`, frames of ROWS) see the completed order of
`plan.sort_keys`. Functions of peers (`rank` and its like, frames of RANGE and GROUPS) see the order as it was written,
in which rows may be equal; where they pick one row of several peers, they pick by the completed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidemill.plan.sort_keys import SortKey, order_sql
from tidemill.plan.window_frames import Frame

RANKS = ("row_number", "rank", "dense_rank")
VALUES = ("first_value", "last_value", "nth_value")
# Aggregates whose answer depends on the order of the rows.
BY_ORDER = tuple(
    "any_value arbitrary arg_max arg_min argmax argmin array_agg first group_concat last list listagg max_by min_by"
    " mode string_agg".split()
)
_OF_PEERS = ("rank", "dense_rank", "percent_rank", "cume_dist")
_OF_ROWS = ("row_number", "ntile", "lag", "lead")
FRAMELESS = (*_OF_PEERS, *_OF_ROWS)
_ONE_ANSWER = ("min", "max", "count", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor")


@dataclass(frozen=True)
class WindowCall:
    """One call, whose result is the column `name`. Arguments are columns of the input, quoted, or constants.

    `frame` None is SQL's own: up to the last peer, or without an order the whole partition. `backward` says that no row
    behind the current one and its peers is looked at.
    """

    name: str
    type: str
    function: str
    arguments: tuple[str, ...] = ()
    distinct: bool = False
    ignore_nulls: bool = False
    frame: Frame | None = None
    backward: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.frame, str):  # in plans that were written when a frame was its text
            object.__setattr__(self, "frame", Frame.of(self.frame))

    @property
    def of_peers(self) -> bool:
        """True when rows that the user's order leaves equal are treated alike."""
        framed = self.function not in FRAMELESS
        return self.function in _OF_PEERS or (framed and (self.frame is None or self.frame.unit != "ROWS"))

    @property
    def is_exact(self) -> bool:
        """True when the result depends on the values in the frame alone, not on the order in which they are met.

        >>> [WindowCall("s", kind, "sum", ('"v"',)).is_exact for kind in ("HUGEINT", "DOUBLE")]
        [True, False]
        """
        if self.function in (*FRAMELESS, *VALUES, *_ONE_ANSWER):
            return True
        return self.function == "sum" and self.type not in ("DOUBLE", "FLOAT")

    @property
    def by_value(self) -> bool:
        """True when the frame is a distance of values.

        >>> frame = Frame.of("RANGE BETWEEN 5 PRECEDING AND CURRENT ROW")
        >>> WindowCall("s", "BIGINT", "sum", ('"v"',), frame=frame).by_value
        True
        """
        return self.frame is not None and self.frame.by_value

    @property
    def reach(self) -> tuple[int, int] | None:
        """How many rows before and behind a row its result depends on at most; None where there is no bound.

        >>> frame = Frame.of("ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING")
        >>> WindowCall("s", "BIGINT", "sum", ('"v"',), frame=frame).reach
        (2, 1)
        >>> WindowCall("l", "BIGINT", "lag", ('"v"',)).reach, WindowCall("r", "BIGINT", "row_number").reach
        ((1, 0), None)
        """
        if self.function in ("lag", "lead"):
            text = self.arguments[1] if len(self.arguments) > 1 else "1"
            if self.ignore_nulls or not text.isdigit():
                return None
            return (int(text), 0) if self.function == "lag" else (0, int(text))
        return None if self.frame is None or self.function in FRAMELESS else self.frame.reach

    def sql(self, partition: Sequence[str], order: tuple[SortKey, ...], total: tuple[SortKey, ...]) -> str:
        """The call over partitions by these columns (quoted): `order` is the user's, `total` the completed one.

        >>> frame = Frame.of("ROWS BETWEEN 1 PRECEDING AND CURRENT ROW")
        >>> call = WindowCall("s", "BIGINT", "sum", ('"v"',), frame=frame)
        >>> call.sql([], (SortKey("t"),), (SortKey("t"),))
        'sum("v") OVER (ORDER BY "t" ASC NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)'
        """
        seen = order if self.of_peers else total
        over = [f"PARTITION BY {', '.join(partition)}"] if partition else []
        over += [f"ORDER BY {order_sql(seen)}"] if seen else []
        over += [self.frame.sql] if self.frame is not None else []
        inner = ("DISTINCT " if self.distinct else "") + ", ".join(self.arguments)
        if self.function in (*VALUES, *BY_ORDER) and self.of_peers and total:
            inner += f" ORDER BY {order_sql(total)}"
        if self.ignore_nulls:
            inner += " IGNORE NULLS"
        return f"{self.function}({inner}) OVER ({' '.join(over)})"
