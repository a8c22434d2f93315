"""Aggregation joins: figures 4 to 6 of paper 000, measured and predicted."""
