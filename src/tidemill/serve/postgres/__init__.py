"""The Postgres protocol, version 3.0: a server on asyncio for psql, drivers and tools."""
