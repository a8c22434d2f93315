"""Kernels of shared windows: hash tables, cells of queries, sliding aggregation, sketches."""
