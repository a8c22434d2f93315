"""Compiled loops: arrays in, arrays out, no DuckDB and no Spark."""
