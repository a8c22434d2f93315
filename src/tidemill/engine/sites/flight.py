"""Sites reach each other by Arrow Flight: the files of a site's entry are read when a connection is made.

Their content is kept in no catalog and shown in no error. The module of Flight is loaded when it is needed.
"""

from __future__ import annotations

import errno
import hmac
import socket
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidemill.engine.sites.exports import LOCAL, PLAINTEXT, parse_address
from tidemill.errors import CatalogProblem, EngineProblem
from tidemill.runtime.sites.protocol import Peer
from tidemill.sql.catalog import Catalog, Entry

if TYPE_CHECKING:
    from tidemill.engine.sites.service import Service
    from tidemill.runtime.sites.flight_server import Identity, SiteServer


class FlightTransport:
    """Connections and servers with mutual TLS and a token, or plain text where an entry says so."""

    def connect(self, site: str, options: dict[str, Any], me: Entry | None) -> Peer:
        """A connection to a site; nothing is sent yet."""
        from tidemill.runtime.sites.flight_client import FlightPeer

        host, port = parse_address(options["address"])
        identity = None if options[PLAINTEXT] else _identity(site, options)
        token = _token(site, options) if "token_file" in options else None
        return FlightPeer(site, host, port, identity, me.name if me is not None else "", token)

    def listen(self, name: str, options: dict[str, Any], catalog: Catalog, service: Service) -> SiteServer:
        """Open the address of the local site."""
        from tidemill.runtime.sites.flight_server import SiteServer

        host, port = parse_address(options["address"])
        identity = None if options[PLAINTEXT] else _identity(name, options)
        try:
            _check_free(host, port)
            return SiteServer(host, port, identity, lambda *given: admit(catalog, *given), service)
        except (OSError, pa.ArrowException) as error:
            raise EngineProblem(
                "TM708",
                f'site "{name}" cannot listen on {options["address"]}',
                detail=str(error).splitlines()[0],
                hint="is another program there, or a certificate that does not fit its key?",
            ) from None


def admit(catalog: Catalog, certified: str | None, claimed: str, token: str) -> str:
    """The name of the site that asks: that of its certificate. Refused unless it is known and has its token."""
    name = certified if certified is not None else claimed
    entry = catalog.entries.get(name.lower())
    if entry is None or entry.kind != "site" or entry.options[LOCAL] or not name:
        raise CatalogProblem("TM702", f'no site "{name[:63]}" is known here', hint="CREATE SITE there names it")
    if certified is None and not entry.options[PLAINTEXT]:
        raise CatalogProblem("TM702", f'site "{entry.name}" must have a certificate', hint="or plaintext = true there")
    if "token_file" in entry.options:
        wanted = _read(entry.name, entry.options, "token_file").strip()
        if not wanted or not hmac.compare_digest(wanted, token.encode()):
            raise CatalogProblem("TM702", f'site "{entry.name}" has another token', hint="compare the token files")
    return entry.name


def _check_free(host: str, port: int) -> None:
    """Raise where another program listens: gRPC would share the address with it, or be content with a part of it."""
    for family, kind, proto, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise


def _identity(site: str, options: dict[str, Any]) -> Identity:
    from tidemill.runtime.sites.flight_server import Identity

    return Identity(*(_read(site, options, name) for name in ("certificate", "key", "ca")))


def _token(site: str, options: dict[str, Any]) -> str:
    """The token as it travels in a header; what is in the file is in no error."""
    found = _read(site, options, "token_file").strip()
    if not found or any(not 32 <= byte < 127 for byte in found):
        raise EngineProblem(
            "TM706",
            f'token_file of site "{site}" is not one line of printable ASCII',
            hint="make it with openssl rand -hex 32",
        )
    return found.decode()


def _read(site: str, options: dict[str, Any], name: str) -> bytes:
    try:
        with open(options[name], "rb") as source:
            return source.read()
    except OSError as error:
        raise EngineProblem(
            "TM706", f'{name} of site "{site}" cannot be read', detail=str(error), hint="give the path of a file"
        ) from None
