"""Rows in an order: the first ones of each partition, ranks, and other window functions."""
