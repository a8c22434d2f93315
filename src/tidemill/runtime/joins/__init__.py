"""Aggregation joins: inputs as rows or aggregation sets, delta joins, hot keys."""
