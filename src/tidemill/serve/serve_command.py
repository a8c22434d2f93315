"""The arguments of `tidemill serve`; its work is in serving.py."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tidemill.serve import opening
from tidemill.serve.problems import report_errors
from tidemill.serve.terminal import console

if TYPE_CHECKING:
    from tidemill.serve.serving import Serving

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
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="A cluster that computes, for example spark://master:7077.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark for it; repeatable.")
]


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
    master: Master = None,
    conf: Settings = None,
) -> None:
    """Run a database live and serve it until SIGTERM or ctrl-C: by the Postgres protocol, and with a console by HTTP.

    Without users everyone on this machine may connect. Another address needs TLS and users (CREATE USER).

    Examples:

        tidemill serve --db /data/lot --init pipeline.sql

        psql -h 127.0.0.1 -p 5433 tidemill
    """
    # Imported here: it loads the engine, which is slow.
    from tidemill.engine.run.cluster import hold_cluster
    from tidemill.serve.postgres.services import Limits
    from tidemill.serve.serving import Serving

    limits = Limits(connections=max_connections, subscription_bytes=queue_mb << 20)
    http = None if no_http else http_port
    wanted = Serving(listen, port, http, tls_cert, tls_key, init, name, limits, log_format)
    _open_and_serve(db, wanted, hold_cluster(master, read_settings(conf or [], master)), clock=clock, shards=shards)


def _open_and_serve(path: str, wanted: Serving, cluster: AbstractContextManager[Any], **settings: Any) -> None:
    from tidemill.serve.serving import serve_database

    out, text = console(stderr=True), wanted.init.read_text(encoding="utf-8") if wanted.init else None
    with (
        report_errors(out, text, str(wanted.init)),
        cluster as spark,
        opening.database(path, out, spark=spark, **settings) as db,
    ):
        if not serve_database(db, wanted):
            raise typer.Exit(1)


def read_settings(given: list[str], master: str | None) -> dict[str, str]:
    """The settings of the options --conf.

    >>> read_settings(["spark.executor.memory=4g", "spark.app.name=a=b"], "spark://here:7077")
    {'spark.executor.memory': '4g', 'spark.app.name': 'a=b'}
    """
    if given and master is None:
        raise typer.BadParameter("--conf needs --master")
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter(f'"{text}" is not spark.NAME=VALUE')
        found[name] = value
    return found
