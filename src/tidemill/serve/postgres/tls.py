"""When the server may listen on an address: this machine always, others only with TLS and users with passwords."""

from __future__ import annotations

import ipaddress
import ssl

from tidemill.errors import EngineProblem


def make_context(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """TLS with a certificate, from version 1.2 on; None where none is given."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise EngineProblem("TM530", "TLS needs a certificate and its key", hint="give --tls-cert and --tls-key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise EngineProblem(
            "TM530", f"the certificate cannot be used: {error}", hint="PEM files of a certificate and its key"
        ) from None
    return context


def check_address(host: str, has_tls: bool, has_users: bool) -> None:
    """Refuse to be reached from other machines without encryption or without passwords (TM531)."""
    if is_loopback(host) or (has_tls and has_users):
        return
    missing = [what for what, there in (("TLS", has_tls), ("users with passwords", has_users)) if not there]
    raise EngineProblem(
        "TM531",
        f'the server does not listen on "{host}" without {" and ".join(missing)}',
        detail="everyone who reaches the address could read and change everything",
        hint="--tls-cert, --tls-key, and CREATE USER in a file that --init names; or listen on 127.0.0.1",
    )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
