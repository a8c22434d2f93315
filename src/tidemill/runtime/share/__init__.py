"""Shared window aggregates: the low level in the readers, the high level in the stages."""
