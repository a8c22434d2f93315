"""DuckDB as the expression engine: one connection for each thread, Arrow in and out, 128-bit integers."""
