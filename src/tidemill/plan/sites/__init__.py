"""Joins between sites: which site owns which input, what is shipped, and what each site computes.

`query` describes a join with a placement, `tree` and `algorithms` what crosses the network, `fragments` the SQL text
that each site runs, `clocks` which times are closed, `half_joins` joins in which each input has an order of its own.
Laws and proofs: docs/ideas/semijoins.md.
"""

from __future__ import annotations

from tidemill.plan.sites.algorithms import ALGORITHMS, Method, build_tree, methods_of
from tidemill.plan.sites.clocks import (
    earliest_switch,
    effective_frontier,
    landing_time,
    switch_edges,
    switched_frontier,
)
from tidemill.plan.sites.fragments import Fragment, LocalInput, SitePlan, plan_sites
from tidemill.plan.sites.half_joins import HalfJoins, closed_until, connected_orders, moment_seen
from tidemill.plan.sites.query import Equality, SiteInput, SiteQuery
from tidemill.plan.sites.tree import JoinAt, Keys, Leaf, Matching, Ship, show_tree, site_of

__all__ = [
    "ALGORITHMS",
    "Equality",
    "Fragment",
    "HalfJoins",
    "JoinAt",
    "Keys",
    "Leaf",
    "LocalInput",
    "Matching",
    "Method",
    "Ship",
    "SiteInput",
    "SitePlan",
    "SiteQuery",
    "build_tree",
    "closed_until",
    "connected_orders",
    "earliest_switch",
    "effective_frontier",
    "landing_time",
    "methods_of",
    "moment_seen",
    "plan_sites",
    "show_tree",
    "site_of",
    "switch_edges",
    "switched_frontier",
]
