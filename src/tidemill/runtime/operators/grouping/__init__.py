"""GROUP BY: in SQL, in arrays, and the values that aggregates need."""
