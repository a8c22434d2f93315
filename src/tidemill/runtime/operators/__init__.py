"""Stateful and linear operators, one a file."""
