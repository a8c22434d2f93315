"""Kernels of aggregation joins, over row numbers."""
