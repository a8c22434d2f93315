"""Rows of views that only grow, in Parquet files that the shards write and the store indexes."""
