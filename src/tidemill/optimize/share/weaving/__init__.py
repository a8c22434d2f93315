"""Weaving window aggregates: the optimizers of paper 003, each callable on its own.

edges       where fragments end and how many there are (`residues` counts, `estimate` samples)
cost        equations 1 to 4
plans       unshared, Shared, Weave Share, TriWeave (`greedy` finds the order of merges)
changes     a query comes or goes
grouptree   group-bys that derive from one another
gtweave     all of it in one plan
"""

from tidemill.optimize.share.weaving.acq import Acq, sliding
from tidemill.optimize.share.weaving.changes import add_query, remove_query
from tidemill.optimize.share.weaving.cost import amortised_factor, overlap_factor
from tidemill.optimize.share.weaving.edges import EdgeRate, edge_rate, edge_times, edges_of
from tidemill.optimize.share.weaving.grouptree import GroupCounts, GroupTree, group_tree
from tidemill.optimize.share.weaving.gtweave import WovenPlan, gtweave
from tidemill.optimize.share.weaving.plans import (
    WeavedGroup,
    WeavePlan,
    Weaving,
    shared,
    triweave,
    unshared,
    weave_share,
)

__all__ = [
    "Acq",
    "EdgeRate",
    "GroupCounts",
    "GroupTree",
    "WeavePlan",
    "WeavedGroup",
    "Weaving",
    "WovenPlan",
    "add_query",
    "amortised_factor",
    "edge_rate",
    "edge_times",
    "edges_of",
    "group_tree",
    "gtweave",
    "overlap_factor",
    "remove_query",
    "shared",
    "sliding",
    "triweave",
    "unshared",
    "weave_share",
]
