"""Who a request is from: a one-time token or a password gives a cookie; programs may send a password with each request.

A cookie says who, until when, and has a signature with a key that is kept in the directory of the database, so that a
page goes on after a restart. It is bound to the verifier of the user's password: a new password ends it, and so does
the first user of a database that had none.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.engine.users.session import Session, find_verifier, has_users
from tidemill.engine.users.verifiers import make_verifier, read_verifier

if TYPE_CHECKING:
    from tidemill.engine import Database

COOKIE_SECONDS = 7 * 24 * 3600
_KEY_FILE = "console.key"


class NotLoggedIn(Exception):
    """The request has no credentials, or wrong ones."""


@dataclass(frozen=True)
class Cookie:
    """A cookie that was checked."""

    user: str | None


class Sessions:
    """Makes cookies at login, and finds the session of a cookie."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._key = _load_key(db.paths.root)
        self.token = secrets.token_urlsafe(24)

    def use_token(self, token: str) -> str | None:
        """A cookie for the token that was printed; it is used up then. With users, tokens give nothing."""
        if has_users(self._db) or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token = secrets.token_urlsafe(24)
        return self._make(None)

    def log_in(self, user: str, password: str) -> str | None:
        """A cookie for a user who knows the password."""
        return self._make(user) if self.knows_password(user, password) else None

    def knows_password(self, user: str, password: str) -> bool:
        """Whether it is the user's password. An unknown user takes as long as a known one."""
        found = find_verifier(self._db, user)
        known = read_verifier(found) if found else None
        salt, iterations = (known.salt, known.iterations) if known else (b"\0" * 16, 4096)
        if read_verifier(password) is not None:  # a verifier is no password
            return False
        made = make_verifier(password, salt, iterations)
        return known is not None and hmac.compare_digest(made.stored_key, known.stored_key)

    def session(self, cookie: str | None, authorization: str | None) -> Session:
        """What the sender of a request may do."""
        if cookie is not None:
            found = self._read(cookie)
            if found is not None:
                return Session(self._db, found.user)
        if authorization is not None and authorization.lower().startswith("basic "):
            user, _, password = _decode(authorization[6:].strip()).partition(":")
            if has_users(self._db) and self.knows_password(user, password):
                return Session(self._db, user)
        raise NotLoggedIn

    def _make(self, user: str | None) -> str:
        text = f"{int(time.time()) + COOKIE_SECONDS}.{_encode(user or '')}"
        return f"{text}.{self._sign(text, user)}"

    def _read(self, cookie: str) -> Cookie | None:
        text, _, signature = cookie.rpartition(".")
        until, _, name = text.partition(".")
        user = _decode(name) or None
        if (user is None) == has_users(self._db) or (user is not None and find_verifier(self._db, user) is None):
            return None
        if not hmac.compare_digest(self._sign(text, user).encode(), signature.encode()):
            return None
        return Cookie(user) if int(until) > time.time() else None

    def _sign(self, text: str, user: str | None) -> str:
        verifier = find_verifier(self._db, user) if user is not None else ""
        return hmac.digest(self._key, f"{text}.{verifier}".encode(), hashlib.sha256).hex()


def _load_key(root: str) -> bytes:
    path = os.path.join(root, _KEY_FILE)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        with open(path, "rb") as found:
            key = found.read()
        if len(key) == 32:
            return key
        handle = os.open(path, os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(handle, "wb") as made:
        made.write(key := os.urandom(32))
    return key


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(text: str) -> str:
    """
    >>> _decode(_encode("ä")), _decode("?")
    ('ä', '')
    """
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_" if "-" in text or "_" in text else None).decode()
    except ValueError:
        return ""
