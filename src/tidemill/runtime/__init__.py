"""Physical plans to rows: one Spark query that interprets them."""
