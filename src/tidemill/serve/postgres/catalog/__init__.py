"""The shadow catalog: what tools ask pg_catalog and information_schema for, answered from a small DuckDB in memory."""
