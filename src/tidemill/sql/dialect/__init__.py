"""DuckDB's SQL for sqlglot, with SYNC, windows in brackets, R(S), difference, NOW and chains of comparisons."""
