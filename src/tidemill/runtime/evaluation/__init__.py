"""Runs the operators of a plan over one batch, within limits, and isolates the ones that fail."""
