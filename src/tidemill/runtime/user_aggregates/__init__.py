"""Aggregates that users write in Python: loading them, and folding them over windows."""
