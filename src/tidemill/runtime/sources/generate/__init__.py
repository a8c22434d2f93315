"""Generated rows: a pure function of seed, column and row number."""
