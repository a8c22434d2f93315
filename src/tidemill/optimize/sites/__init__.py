"""Joins between sites: what each algorithm of paper 001 ships and costs, and the search for the cheapest plan.

`parameters` are statistics of streams and links, `printed` the paper's cost formulas, `shipments` and `corrected` what
crosses the network by occupancy, `known` what our own fragments ship and `choose` which of them run, `sequences`
joins of m streams, `search` the greedy and the exhaustive algorithm.
"""

from __future__ import annotations

from tidemill.optimize.sites.choose import (
    Choice,
    Situation,
    cheapest,
    choose_methods,
    list_algorithms,
    price_choice,
    takes_over,
)
from tidemill.optimize.sites.corrected import Price, price_join, price_shipments
from tidemill.optimize.sites.known import known_share, list_known_shipments
from tidemill.optimize.sites.parameters import (
    ALGORITHMS,
    Constants,
    Link,
    OneWayJoin,
    SiteStream,
    domain_size,
    occupancy,
)
from tidemill.optimize.sites.printed import printed_cost
from tidemill.optimize.sites.search import choose_greedy, choose_shared, search_exhaustively
from tidemill.optimize.sites.sequences import Flow, JoinGraph, Prices, SequencePlan, Step, price_plan
from tidemill.optimize.sites.shipments import Shipment, list_shipments

__all__ = [
    "ALGORITHMS",
    "Choice",
    "Constants",
    "Flow",
    "JoinGraph",
    "Link",
    "OneWayJoin",
    "Price",
    "Prices",
    "SequencePlan",
    "Shipment",
    "SiteStream",
    "Situation",
    "Step",
    "cheapest",
    "choose_greedy",
    "choose_methods",
    "choose_shared",
    "domain_size",
    "known_share",
    "list_algorithms",
    "list_known_shipments",
    "list_shipments",
    "occupancy",
    "price_choice",
    "price_join",
    "price_plan",
    "price_shipments",
    "printed_cost",
    "search_exhaustively",
    "takes_over",
]
