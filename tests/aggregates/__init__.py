"""Aggregates that need all values of a group."""
