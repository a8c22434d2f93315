"""A database directory: its lock, id and format, whether its parts fit together, backups, rescaling, tidying."""
