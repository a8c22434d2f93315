"""Connections to PostgreSQL: checked when they are named, opened with the password from where it is kept."""

from __future__ import annotations

from typing import Any

from tidemill.errors import SourceProblem
from tidemill.runtime.extras import load
from tidemill.runtime.secrets import check_secret, read_secret


def check_connection(text: str, options: dict[str, Any]) -> None:
    """Refuse a connection that holds its password, or that cannot be read."""
    psycopg = load("psycopg", "postgres", "a connection to PostgreSQL")
    load("psycopg.conninfo", "postgres", "a connection to PostgreSQL")
    try:
        given = psycopg.conninfo.conninfo_to_dict(text)
    except psycopg.Error as error:
        raise SourceProblem(
            "TM407", "the connection to PostgreSQL cannot be read", detail=str(error), hint="'host=db dbname=shop'"
        ) from None
    if "password" in given:
        check_secret("password", None)
    if "password" in options:
        check_secret("password", options["password"])


def connect(text: str, given: dict[str, Any], **more: Any) -> Any:
    """A connection, with the password from where the option says it is."""
    psycopg = load("psycopg", "postgres", "a connection to PostgreSQL")
    secret = {"password": read_secret("password", given["password"])} if "password" in given else {}
    return psycopg.connect(text, autocommit=True, connect_timeout=20, application_name="tidemill", **secret, **more)
