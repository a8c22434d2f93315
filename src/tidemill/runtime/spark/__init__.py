"""Everything that knows Spark: session, job, data source, shard processor, worker processes.

job        `job`, `session`, `given_session`, `shard_labels`
called     by Spark: `data_source` on the driver, `shard_processor` and `tasks` in workers; `spread` calls functions in
           workers between batches
start      `zygote`, `worker_daemon`, `warm_up`, `class_archive`
failures   `error_text`, `log_file`
"""
