"""CSV and JSON lines to typed columns."""
