"""What users see of the engine: SHOW, DESCRIBE, EXPLAIN WHY, status, warnings."""
