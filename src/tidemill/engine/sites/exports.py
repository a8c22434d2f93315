"""CREATE SITE, EXPORT and REVOKE: which sites there are, how they are reached, and what each of them may read.

The catalog keeps names of files, never what is in them.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Any

from tidemill.engine.sites.fragments import check_exportable
from tidemill.engine.workload import Workload
from tidemill.errors import CatalogProblem
from tidemill.plan.sites import ALGORITHMS
from tidemill.plan.statements import CreateSite, Export
from tidemill.sql.catalog import Catalog, Entry

EXPORTS, LOCAL, PLAINTEXT = "exports", "local", "plaintext"
SITE_JOIN, AT, MAX_LATENCY = "site_join", "at", "max_latency"
SITE_JOINS = ("auto", *ALGORITHMS)
FILES = ("ca", "certificate", "key", "token_file")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}")  # a certificate has it as a name of its own


def create_site(catalog: Catalog, statement: CreateSite) -> Entry:
    """A new site; another one, or with LOCAL this one."""
    catalog.check_free(statement.name)
    if not _NAME.fullmatch(statement.name):
        raise CatalogProblem(
            "TM701", f'"{statement.name}" is not a name of a site', hint="letters, digits, _ and -, as in a certificate"
        )
    if statement.local and local_site(catalog) is not None:
        raise CatalogProblem("TM701", "this database is a site already", hint="SHOW SITES shows it; DROP SITE it first")
    options = {name: os.path.abspath(value) for name, value in statement.options.items() if name in FILES}
    options[PLAINTEXT] = bool(statement.options.get(PLAINTEXT))
    _check_security(statement, options)
    options |= {"address": statement.address, LOCAL: statement.local, EXPORTS: []}
    entry = Entry("site", statement.name, statement.text, options=options)
    catalog.add(entry)
    return entry


def local_site(catalog: Catalog) -> Entry | None:
    """The entry of this database as a site, if it is one."""
    return next((e for e in catalog.of("site") if e.options[LOCAL]), None)


def export(catalog: Catalog, workload: Workload, statement: Export) -> str:
    """EXPORT or REVOKE; what was done."""
    site = find_other_site(catalog, statement.site)
    listed: list[str] = site.options[EXPORTS]
    if statement.revoked:
        name = statement.name.lower()
        if name not in listed:
            raise CatalogProblem(
                "TM703", f'"{statement.name}" is not exported to site {site.name}', hint="SHOW SITES lists what is"
            )
        listed.remove(name)
        return f"{statement.kind} {statement.name} is not exported to site {site.name} any more"
    kinds = ("stream",) if statement.kind == "stream" else ("view", "query")
    catalog.find(statement.name, *kinds)
    name = check_exportable(workload, statement.name).name.lower()
    if name not in listed:
        listed.append(name)
    return f"{statement.kind} {statement.name} is exported to site {site.name}"


def find_other_site(catalog: Catalog, name: str) -> Entry:
    """The entry of another site."""
    entry = catalog.find(name, "site")
    if entry.options[LOCAL]:
        raise CatalogProblem("TM701", f'site "{entry.name}" is this database', hint="name another site")
    return entry


def may_read(catalog: Catalog, site: str) -> set[str]:
    """The names, in lower case, that a site may read."""
    entry = catalog.entries.get(site.lower())
    known = entry is not None and entry.kind == "site" and not entry.options[LOCAL]
    return set(entry.options[EXPORTS]) if entry is not None and known else set()


def parse_address(address: str) -> tuple[str, int]:
    """Host and port.

    >>> parse_address("paris.example.org:7443"), parse_address("[::1]:7443")
    (('paris.example.org', 7443), ('::1', 7443))
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise CatalogProblem("TM701", f'"{address}" is not an address', hint="write AT 'host:7443'")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether an address does not leave this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _check_security(statement: CreateSite, options: dict[str, Any]) -> None:
    """Mutual TLS and a token, or plain text on loopback where that is said."""
    host = parse_address(statement.address)[0] if statement.address else None
    if options[PLAINTEXT]:
        if host is not None and not is_loopback(host):
            raise CatalogProblem(
                "TM706",
                f"plaintext is possible on this machine only, and {host} is another one",
                hint="give ca, certificate and key",
            )
        return
    needed = ("ca", "certificate", "key") if statement.local or statement.address else ()
    needed = (*needed, "token_file") if not statement.local else needed
    missing = [name for name in needed if name not in options]
    if missing:
        raise CatalogProblem(
            "TM706",
            f'site "{statement.name}" needs {", ".join(missing)}',
            hint="WITH (ca = 'ca.pem', certificate = 'me.pem', key = 'me.key', token_file = 'token');"
            " on one machine WITH (plaintext = true)",
        )
    for name in (n for n in FILES if n in options):
        if not os.path.isfile(options[name]):
            raise CatalogProblem("TM706", f'{name}: there is no file "{options[name]}"', hint="give the path of a file")
