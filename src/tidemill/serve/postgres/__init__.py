"""The Postgres protocol, version 3.0: a server on asyncio for psql, drivers and tools.

Read `server`, `connection` and `interpreter` first.

bytes       `messages`, `sending`; `login` with `tls` and `scram`
statements  `simple` and `extended` protocol; `lexical`, `commands`, `qualified_names`, `set_config`, `settings`,
            `catalog/`
parameters  `parameters`, `inference`
answers     `results`, `rows`, `fields`, `values`, `zones`, `problems`
shared      `services`: the database, threads, limits
"""
