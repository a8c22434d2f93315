"""Kernels of groupings, taggers and rankings: distinct values, extremes, replaced records, ranks."""
