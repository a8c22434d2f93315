"""A table of PostgreSQL as a source: a snapshot, then its changes by logical replication, on disk before they count."""
