"""A TCP port: receiving lines into a durable spool, and reading the spool."""
