"""Verifiers of passwords: SCRAM-SHA-256 (RFC 5802, RFC 7677) in the notation of Postgres.

    SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>

A verifier proves that a client knows the password, and proves to the client that the server has the verifier. The
password cannot be read from it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import unicodedata
from dataclasses import dataclass

ITERATIONS = 4096  # the least that RFC 7677 allows, and what PostgreSQL uses: a login takes some milliseconds
_SALT_BYTES = 16  # as PostgreSQL has
_FORM = re.compile(r"SCRAM-SHA-256\$(\d{1,7}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]{44}):([A-Za-z0-9+/=]{44})")
_MOST_ITERATIONS = 1_000_000  # more would let a stored verifier hold up the server for seconds


@dataclass(frozen=True)
class Verifier:
    """What the server keeps of a password."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __str__(self) -> str:
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"


def make_verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
    """The verifier of a password; of a text that is a verifier already, that one.

    >>> made = make_verifier("pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    >>> base64.b64encode(made.server_key).decode()
    'wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU='
    """
    given = read_verifier(password)
    if given is not None:
        return given
    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", prepare_password(password), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return Verifier(iterations, salt, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256"))


def read_verifier(text: str) -> Verifier | None:
    """The verifier that a text spells; None where it spells none.

    >>> read_verifier(str(make_verifier("pencil"))) == make_verifier("pencil"), read_verifier("pencil")
    (False, None)
    """
    found = _FORM.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= _MOST_ITERATIONS:
        return None
    try:
        parts = [base64.b64decode(part, validate=True) for part in found.groups()[1:]]
    except ValueError:
        return None
    return Verifier(int(found[1]), *parts)


def prepare_password(password: str) -> bytes:
    """The password as it is hashed: normalized as SASLprep asks where that is possible, else as it is."""
    return unicodedata.normalize("NFKC", password).encode()
