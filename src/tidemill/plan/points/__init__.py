"""Synchronization points as sets of times: their algebra, and the points of a relation."""

from tidemill.plan.periods import Every
from tidemill.plan.points.algebra import (
    AllOf,
    AnyOf,
    EveryChange,
    Never,
    On,
    Points,
    Rows,
    intersect,
    is_contained,
    unite,
)
from tidemill.plan.points.clock import clock_periods, read_anew
from tidemill.plan.points.derive import all_points, full_points, partial_points, points_of, synchronizer_points
from tidemill.plan.points.show import Domain, show_points, show_relation_points

__all__ = [
    "AllOf",
    "AnyOf",
    "Domain",
    "Every",
    "EveryChange",
    "Never",
    "On",
    "Points",
    "Rows",
    "all_points",
    "clock_periods",
    "full_points",
    "intersect",
    "is_contained",
    "partial_points",
    "points_of",
    "read_anew",
    "show_points",
    "show_relation_points",
    "synchronizer_points",
    "unite",
]
