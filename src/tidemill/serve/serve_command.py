"""The arguments of `tidemill serve`; its work is in serving.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tidemill.serve import opening
from tidemill.serve.problems import report_errors
from tidemill.serve.terminal import console

Directory = Annotated[str, typer.Option("--db", metavar="DIR", help="Directory of the database; made when missing.")]
Address = Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on; others need TLS and users.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="Port of the Postgres protocol; 0 takes a free one.")]
HttpPort = Annotated[
    int, typer.Option(min=0, max=65_535, help="Port of console, metrics and JSON; 0 takes a free one.")
]
NoHttp = Annotated[bool, typer.Option("--no-http", help="Serve the Postgres protocol only.")]
LogFormat = Annotated[Literal["text", "json"], typer.Option(help="Lines of the log: text, or an object each.")]
Certificate = Annotated[str | None, typer.Option(metavar="FILE", help="Certificate (PEM) for TLS.")]
Key = Annotated[str | None, typer.Option(metavar="FILE", help="Key (PEM) of the certificate.")]
Init = Annotated[
    Path | None,
    typer.Option(metavar="FILE.sql", exists=True, dir_okay=False, help="Statements to begin with; what stands stays."),
]
Name = Annotated[str, typer.Option(help="Name of the database, as clients see it.")]
Connections = Annotated[int, typer.Option(min=1, help="Connections at a time.")]
Queue = Annotated[int, typer.Option(min=1, help="Megabytes of changes that wait for one subscriber.")]
Clock = Annotated[str | None, typer.Option(help="Length of one clock unit, for example '1 second'.")]
Shards = Annotated[int | None, typer.Option(min=1, help="How many shards a new database has; the cores if not given.")]


def serve(
    db: Directory,
    listen: Address = "127.0.0.1",
    port: Port = 5433,
    http_port: HttpPort = 8380,
    no_http: NoHttp = False,
    tls_cert: Certificate = None,
    tls_key: Key = None,
    init: Init = None,
    name: Name = "tidemill",
    max_connections: Connections = 256,
    queue_mb: Queue = 64,
    log_format: LogFormat = "text",
    clock: Clock = None,
    shards: Shards = None,
) -> None:
    """Run a database live and serve it until SIGTERM or ctrl-C: by the Postgres protocol, and with a console by HTTP.

    Without users everyone on this machine may connect. Another address needs TLS and users (CREATE USER).

    Examples:

        tidemill serve --db /data/lot --init pipeline.sql

        psql -h 127.0.0.1 -p 5433 tidemill
    """
    # Imported here: it loads the engine, which is slow.
    from tidemill.serve.postgres.services import Limits
    from tidemill.serve.serving import Serving, serve_database

    limits = Limits(connections=max_connections, subscription_bytes=queue_mb << 20)
    http = None if no_http else http_port
    wanted = Serving(listen, port, http, tls_cert, tls_key, init, name, limits, log_format)
    out, text = console(stderr=True), init.read_text(encoding="utf-8") if init else None
    with report_errors(out, text, str(init)), opening.database(db, out, clock=clock, shards=shards) as opened:
        if not serve_database(opened, wanted):
            raise typer.Exit(1)
