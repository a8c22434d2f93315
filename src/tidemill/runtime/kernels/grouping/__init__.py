"""Kernels of groupings and taggers: distinct values, extremes, replaced records."""
