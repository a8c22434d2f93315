"""All window aggregates of a source as one plan: phantoms, weaving, statistics."""
