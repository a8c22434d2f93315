"""The cost of a plan of an aggregation join per unit of time (paper 000, sections 6.3 and 7.1.1, for m inputs).

A plan has a character for each input: 1 if an early aggregation keeps it as AS_i, 0 if it is the window W_i. "00" is
the LAP, "10" is EAP10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidemill.optimize.joins.order import Order, probe_orders
from tidemill.optimize.joins.parameters import Parameters, Table

TOGETHER = 20  # changes per join value in the micro-batches with which P_h is measured


@dataclass(frozen=True)
class Constants:
    """Costs of one row, in nanoseconds; B is the most buckets a hash table may have.

    `P_n`, `P_h`: compare with one row of a window or set. A hash join fetches a row once for all changes of a
    micro-batch that match it: P_h is the part of each of `TOGETHER` changes. `U_n`, `U_h`: insert a row into a window
    or delete it. `U_g`: find and update a group. `U_r`: update the group of the row before; None is U_g, as in the
    paper. `byte_network`: send a byte from reader to stage. `byte_state`: keep a byte for a second.

    Defaults are rough. DuckDB with one thread takes 7 to 30 for each match of a hash join, 5 to 28 for a row of its
    build side, 14 to 48 for a row of a group-by (more with more groups) and 0.07 for a pair of a nested loop; payloads
    are sent at 150 to 200 MB/s. The price of state is a policy: a gigabyte is worth a hundredth of a core.
    """

    P_n: float = 0.1
    P_h: float = 10.0
    U_n: float = 20.0
    U_h: float = 20.0
    U_g: float = 20.0
    byte_state: float = 0.01
    byte_network: float = 6.0
    B: float = math.inf
    U_r: float | None = None

    def __post_init__(self) -> None:
        rows = (self.P_n, self.P_h, self.U_n, self.U_h, self.U_g, self.U_g if self.U_r is None else self.U_r)
        if min(rows) <= 0 or min(self.byte_state, self.byte_network) < 0:
            raise ValueError("costs of rows are positive, costs of bytes not negative")


@dataclass(frozen=True)
class Operations:
    """C_uw of a window update, C_fmt of finding matching tuples, C_iau of an AS update (table II), for one change.

    C_run is an AS update in the group of the update before; None if it costs C_iau, as in the paper. `fetched`:
    matching tuples are found once for all changes of a micro-batch.
    """

    C_uw: Callable[[int], float]
    C_fmt: Callable[[Table], float]
    C_iau: Callable[[Table], float]
    C_run: float | None = None
    fetched: bool = False


def nested_loop(constants: Constants) -> Operations:
    """(19) to (22): a probe compares with every row, size · P_n. Groups are found by hashing, size / buckets · U_g."""
    return Operations(
        C_uw=lambda k: constants.U_n,
        C_fmt=lambda table: table.size * constants.P_n,
        C_iau=lambda table: table.size / table.buckets * constants.U_g,
        C_run=constants.U_r,
    )


def hash_join(constants: Constants) -> Operations:
    """(23) to (26): a probe compares with the rows of a bucket, size / buckets · P_h.

    A bucket holds at least the matching rows. With m_i of appendix A that is always true; a measured m_i can be larger.
    """
    return Operations(
        C_uw=lambda k: constants.U_h,
        C_fmt=lambda table: max(table.size / table.buckets, table.fan_out) * constants.P_h,
        C_iau=lambda table: table.size / table.buckets * constants.U_g,
        C_run=constants.U_r,
        fetched=True,
    )


Method = Callable[[Constants], Operations]


def input_cost(k: int, known: Parameters, plan: str, ordering: Order, operations: Operations) -> float:
    """The cost of the changes of input k per unit of time.

    One change costs C_uw(W_k) + Σ_s f_s · C_fmt(X_s) + f · C_iau(AS), where X_s is W_s or AS_s by the plan, f_s the
    product of the fan-outs (m or n) of the steps before s, and f that of all steps. With an early aggregation each row
    also costs C_iau(AS_k). Where AS_k is shipped once for each refresh, rows cost C_iau and only its changes the rest.

    Of the f joined rows of a change, those in the group of the row before cost C_run, the others C_iau. The paper has
    C_iau for all of them, which is the case C_run = C_iau.
    """
    stream, reached, fan_out, steps, runs = known.streams[k], [k], 1.0, 0.0, 1.0
    for j in ordering:
        table = known.probed_table(j, plan, reached)
        once = known.first_share(k, plan, table, reached, fan_out) if operations.fetched else None
        steps += fan_out * operations.C_fmt(table) * (1.0 if once is None else TOGETHER * once)
        runs = fan_out * known.runs(table, reached)
        fan_out *= table.fan_out
        reached.append(j)
    find = operations.C_iau(known.answer)
    again = find if operations.C_run is None else operations.C_run
    change = operations.C_uw(k) + steps + runs * find + (fan_out - runs) * again
    taken = 1 + stream.decrement
    set_update = operations.C_iau(known.updated_set(k)) if plan[k] == "1" and not stream.alike else 0.0
    return taken * (known.shipped_changes(k, plan) * change + stream.rate * set_update)


def unit_time_cost(
    known: Parameters, plan: str, operations: Operations, orderings: Sequence[Order] | None = None
) -> float:
    """C_LA (15), C_EA10 (16), C_EA01 (17), C_EA11 (18), and the same for any plan of m inputs: Σ_k of `input_cost`.

    In (15) to (18) C is for a tuple that is inserted and deleted; here it is for one change, and a tuple that is also
    deleted counts twice, as in (19) to (26). (20) prints α_1/B_g for the update of AS_1 and α/B_2 for that of AS. We
    take α_1/B_1 and α/B_g, as (21), (22) and (24) do: AS_1 is hashed on its join attribute and AS on a grouping
    attribute.

    >>> from tidemill.optimize.joins.parameters import derive_parameters
    >>> from tidemill.optimize.joins.streams import Stream
    >>> p, ones = derive_parameters([Stream(1, 4, 1, 2), Stream(1, 4, 1, 2)]), Constants(1, 1, 1, 1, 1)
    >>> unit_time_cost(p, "00", nested_loop(ones))  # twice 2 (4 + 1 + 2): four rows compared, two of them match
    28.0
    >>> unit_time_cost(p, "11", nested_loop(ones))  # twice 2 (2 + 1 + 1 + 1): two groups, one matches, AS_i is updated
    20.0
    """
    each = probe_orders(known, plan) if orderings is None else orderings
    return sum(input_cost(k, known, plan, each[k], operations) for k in range(len(known.streams)))
