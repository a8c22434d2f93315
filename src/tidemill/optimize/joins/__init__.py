"""Joins that aggregate first: the optimizer of aggregation join queries (paper 000).

streams     statistics of the inputs
parameters  appendix A: sizes, fan-outs, buckets
order       the order in which a change probes the other inputs
cost        equations 15 to 26, for m inputs
space       bytes kept and bytes sent
plans       the 2^m plans, the greedy choice, when to change
"""

from tidemill.optimize.joins.cost import Constants, Operations, hash_join, nested_loop, unit_time_cost
from tidemill.optimize.joins.order import probe_order, probe_orders
from tidemill.optimize.joins.parameters import Parameters, Table, derive_parameters
from tidemill.optimize.joins.plans import Model, PricedPlan, choose, greedy, plans, worth_changing
from tidemill.optimize.joins.space import network_bytes, state_bytes
from tidemill.optimize.joins.streams import Graph, Stream, joined_pairs

__all__ = [
    "Constants",
    "Graph",
    "Model",
    "Operations",
    "Parameters",
    "PricedPlan",
    "Stream",
    "Table",
    "choose",
    "derive_parameters",
    "greedy",
    "hash_join",
    "joined_pairs",
    "nested_loop",
    "network_bytes",
    "plans",
    "probe_order",
    "probe_orders",
    "state_bytes",
    "unit_time_cost",
    "worth_changing",
]
