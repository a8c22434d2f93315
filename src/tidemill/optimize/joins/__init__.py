"""Joins that aggregate first: the optimizer of aggregation join queries (paper 000).

streams     what is known of the inputs
parameters  appendix A: sizes, fan-outs, buckets
order       in which order a change probes the other inputs
cost        equations 15 to 26, for m inputs
space       bytes kept and bytes sent
plans       the 2^m plans, the greedy choice, when to change
"""

from tidemill.optimize.joins.cost import Constants, Operations, hash_join, nested_loop, unit_time_cost
from tidemill.optimize.joins.order import order, orders
from tidemill.optimize.joins.parameters import Parameters, Table, parameters
from tidemill.optimize.joins.plans import Model, Planned, choose, greedy, plans, worth_changing
from tidemill.optimize.joins.space import network_bytes, state_bytes
from tidemill.optimize.joins.streams import Graph, Stream, joined

__all__ = [
    "Constants",
    "Graph",
    "Model",
    "Operations",
    "Parameters",
    "Planned",
    "Stream",
    "Table",
    "choose",
    "greedy",
    "hash_join",
    "joined",
    "nested_loop",
    "network_bytes",
    "order",
    "orders",
    "parameters",
    "plans",
    "state_bytes",
    "unit_time_cost",
    "worth_changing",
]
