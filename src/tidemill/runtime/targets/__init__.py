"""Systems that sinks write to: each keeps the number of the last batch in the same transaction as its rows."""
