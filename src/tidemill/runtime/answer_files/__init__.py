"""Rows of append-only views, in Parquet files that the shards write and the store indexes.

The fast path `answer_files`: a view holds exactly the rows that messages would bring into its table; without it, and
for few rows, they do.
"""
