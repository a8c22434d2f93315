"""SCRAM-SHA-256, the server's side (RFC 5802): the client proves that it knows the password, and learns that the server
has its verifier. Neither sends anything from which the password can be computed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re

from tidemill.engine.users.verifiers import Verifier, make_verifier
from tidemill.serve.postgres.problems import ProtocolProblem

MECHANISM = "SCRAM-SHA-256"
_FIRST = re.compile(r"([ny]),(?:a=[^,]*)?,(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)")
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?),p=([A-Za-z0-9+/=]+)")


class Exchange:
    """One attempt to log in. A user that does not exist is asked like any other, and fails at the end."""

    def __init__(self, verifier: Verifier | None, user: str, secret: bytes) -> None:
        self._known = verifier is not None
        # The salt of an unknown user is always the same, as that of a known one is.
        salt = hmac.digest(secret, user.lower().encode(), "sha256")[:16]
        self._verifier = verifier or make_verifier(base64.b64encode(os.urandom(16)).decode(), salt)
        self._nonce = base64.b64encode(os.urandom(18)).decode()
        self._flag = self._bare = self._challenge = ""

    def challenge(self, first: str) -> str:
        """The answer to the client's first message."""
        found = _FIRST.fullmatch(first)
        if found is None:
            raise ProtocolProblem("08P01", "malformed SCRAM message", fatal=True)
        self._flag, self._bare, self._nonce = found[1], found[2], found[3] + self._nonce
        salt = base64.b64encode(self._verifier.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._challenge

    def verify(self, final: str) -> str | None:
        """The server's proof, if the client's is right; None for a wrong password."""
        found = _FINAL.fullmatch(final)
        if found is None:
            raise ProtocolProblem("08P01", "malformed SCRAM message", fatal=True)
        message = ",".join((self._bare, self._challenge, found[1])).encode()
        expected = base64.b64encode(f"{self._flag},,".encode()).decode()
        signature = hmac.digest(self._verifier.stored_key, message, "sha256")
        try:
            proof = base64.b64decode(found[4], validate=True)
        except ValueError:
            return None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_right = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        is_bound = found[2] == expected and found[3] == self._nonce and len(proof) == len(signature)
        if not (is_right and is_bound and self._known):
            return None
        server = hmac.digest(self._verifier.server_key, message, "sha256")
        return "v=" + base64.b64encode(server).decode()
