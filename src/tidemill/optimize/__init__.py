"""Relations to better relations to one physical plan for all queries."""
