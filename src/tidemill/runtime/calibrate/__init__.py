"""Measures the cost constants of the papers on this machine."""
