"""Recovery after failures: restarts of the job, repaired views, skipped batches."""
