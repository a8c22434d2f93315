"""The high level: fragment stores and the final aggregation of every query."""
