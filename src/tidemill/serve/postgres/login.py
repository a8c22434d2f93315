"""The beginning of a connection: TLS, cancel requests, the startup message, and who the client is."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import Any

from tidemill.engine.users.session import find_verifier, has_users
from tidemill.engine.users.verifiers import read_verifier
from tidemill.serve.postgres import messages as m
from tidemill.serve.postgres.problems import ProtocolProblem
from tidemill.serve.postgres.scram import MECHANISM, Exchange
from tidemill.serve.postgres.services import Services
from tidemill.serve.postgres.tls import is_loopback

_TLS, _GSS, _CANCEL, _VERSION_3 = 80877103, 80877104, 80877102, 196608
_SASL, _SASL_CONTINUE, _SASL_FINAL = 10, 11, 12


@dataclass(frozen=True)
class CancelRequest:
    """Another connection's statement shall end."""

    process: int
    secret: int


@dataclass(frozen=True)
class Startup:
    """What a client says about itself."""

    user: str
    database: str
    options: dict[str, str]


async def begin(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, services: Services
) -> Startup | CancelRequest:
    """Read up to the startup message; TLS begins before it where the client asks and the server can."""
    is_encrypted = False
    for _ in range(4):
        body = m.Body(await m.read_startup(reader))
        code = body.int32()
        if code == _CANCEL:
            process, secret = struct.unpack(">iI", body.take(8))
            return CancelRequest(process, secret)
        if code in (_TLS, _GSS):
            starts = code == _TLS and services.tls is not None and not is_encrypted
            writer.write(b"S" if starts else b"N")
            await writer.drain()
            if starts:
                # Bytes before the handshake would be read as if they had come encrypted.
                if getattr(reader, "_buffer", b""):
                    raise ProtocolProblem("08P01", "received unencrypted data after the request for TLS", fatal=True)
                await writer.start_tls(services.tls)  # type: ignore[arg-type]
                is_encrypted = True
            continue
        return _read_startup(code, body, writer, is_encrypted, services)
    raise ProtocolProblem("08P01", "too many requests before the startup message", fatal=True)


def _read_startup(
    code: int, body: m.Body, writer: asyncio.StreamWriter, is_encrypted: bool, services: Services
) -> Startup:
    if code >> 16 != 3:
        raise ProtocolProblem("0A000", f"unsupported frontend protocol {code >> 16}.{code & 0xFFFF}", fatal=True)
    given: dict[str, str] = {}
    while not body.is_empty and (name := body.text()):
        given[name] = body.text()
    if code != _VERSION_3 or any(name.startswith("_pq_.") for name in given):
        unknown = [name for name in given if name.startswith("_pq_.")]
        listed = b"".join(m.text_bytes(name) for name in unknown)
        writer.write(m.frame("v", struct.pack(">ii", _VERSION_3, len(unknown)), listed))
    if "user" not in given:
        raise ProtocolProblem("28000", "no user name is in the startup message", fatal=True)
    if services.tls is not None and not is_encrypted and not is_local(writer):
        raise ProtocolProblem("28000", "the connection must be encrypted", hint="sslmode=require", fatal=True)
    if given.get("replication", "off").lower() not in ("off", "false", "0", "no"):
        raise ProtocolProblem("0A000", "there is no replication protocol here", hint="SUBSCRIBE", fatal=True)
    user = given.pop("user")
    return Startup(user, given.pop("database", user), {k: v for k, v in given.items() if not k.startswith("_pq_.")})


def is_local(writer: asyncio.StreamWriter) -> bool:
    """Whether the client is on this machine."""
    peer: Any = writer.get_extra_info("peername")
    return not isinstance(peer, tuple) or is_loopback(peer[0])


async def authenticate(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, services: Services, user: str, secret: bytes
) -> str | None:
    """The user whose rights the connection has, after the password was proved; None, all rights, where the database has
    no users: then for clients of this machine only.
    """
    if not has_users(services.db):
        if not is_local(writer):
            raise ProtocolProblem(
                "28000",
                "the database has no users: it takes connections of this machine",
                hint="CREATE USER",
                fatal=True,
            )
        return None
    found = find_verifier(services.db, user)
    exchange = Exchange(read_verifier(found) if found else None, user, secret)
    writer.write(m.authentication(_SASL, m.text_bytes(MECHANISM) + b"\0"))
    body = m.Body((await _read_password(reader, writer)).body)
    if body.text() != MECHANISM:
        raise ProtocolProblem("28000", "the client chose an unknown way to log in", hint=MECHANISM, fatal=True)
    first = m.decode_text(body.take(body.int32()))
    writer.write(m.authentication(_SASL_CONTINUE, exchange.challenge(first).encode()))
    proof = exchange.verify(m.decode_text((await _read_password(reader, writer)).body))
    if proof is None:
        raise ProtocolProblem("28P01", f'password authentication failed for user "{user}"', fatal=True)
    writer.write(m.authentication(_SASL_FINAL, proof.encode()))
    return user


async def _read_password(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> m.Message:
    await writer.drain()
    message = await m.read_message(reader, m.MOST_LOGIN)
    if message.kind != "p":
        raise ProtocolProblem("08P01", "expected a message with the password", fatal=True)
    return message
