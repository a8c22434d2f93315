"""The low level: predicates, fragments, hash tables that feed each other, running totals."""
