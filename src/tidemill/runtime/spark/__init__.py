"""Everything that knows Spark: session, job, data source, shard processor, worker processes."""
