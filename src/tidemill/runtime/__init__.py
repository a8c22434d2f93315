"""Physical plans to rows: one Spark query that interprets them.

The folders are its rooms (ARCHITECTURE.md); what all of them use lies here.

paths taken    `fast_paths`, `thresholds`
rows           `arrow_ipc`, `row_references`
memory         `freed_memory`, `garbage_collection`
files          `paths`, `durable`, `integrity`, `private_folders`
other systems  `extras`, `secrets`, `kafka_client`, `postgres_client`
"""
