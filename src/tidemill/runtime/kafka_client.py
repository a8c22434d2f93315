"""Connections to Kafka: settings from options, with secrets from the environment or files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from tidemill.errors import SourceProblem
from tidemill.runtime.extras import load
from tidemill.runtime.secrets import check_secret, read_secret

SECURITY = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
SECRETS = ("password", "private_key_password")
# Options of sources and sinks, and the setting of the client that each one is.
_SETTINGS = {
    "security": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password": "sasl.password",
    "ca": "ssl.ca.location",
    "certificate": "ssl.certificate.location",
    "private_key": "ssl.key.location",
    "private_key_password": "ssl.key.password",
}
OPTIONS = (*_SETTINGS, "client_settings")
ANSWER_S = 20.0  # seconds for one question to the brokers
_FIRST_S = 2.0  # after which it is looked at whether the brokers refuse this client
_clients: dict[tuple[int, str, str], Any] = {}
_refusals: dict[int, list[Any]] = {}  # by the id of a client that is kept: why brokers do not let it in


def check_client_options(options: Mapping[str, Any]) -> None:
    """Refuse options with which no connection can be made, and secrets that are written out."""
    security = options.get("security", "plaintext")
    if security not in SECURITY:
        raise SourceProblem("TM407", f'security cannot be "{security}"', hint=f"one of {', '.join(SECURITY)}")
    for name in SECRETS:
        if name in options:
            check_secret(name, options[name])
    if "client_settings" in options and not os.path.isfile(str(options["client_settings"])):
        raise SourceProblem(
            "TM407",
            f'client_settings: there is no file "{options["client_settings"]}"',
            hint="a file with lines such as  sasl.username=ann",
        )


def client_settings(brokers: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a client, with the secrets in it: never to be stored or shown."""
    settings: dict[str, Any] = {"bootstrap.servers": brokers, "log_level": 0, "error_cb": _ignore}
    if "client_settings" in options:
        settings |= _read_settings(str(options["client_settings"]))
    for option, name in _SETTINGS.items():
        if option in options:
            value = str(options[option])
            settings[name] = read_secret(option, value) if option in SECRETS else value
    return settings


def _read_settings(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _ignore(error: Any) -> None:
    """Errors of connections are seen by the call that waits for an answer."""


def kafka() -> Any:
    """The client library."""
    return load("confluent_kafka", "kafka", "Kafka")


def kept_client(kind: str, brokers: str, options: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Any:
    """A client of this process, made once: 'admin' asks about topics, 'consumer' reads without a group.

    A client does not survive a fork.
    """
    key = (os.getpid(), kind, repr((brokers, sorted((k, str(options[k])) for k in OPTIONS if k in options))))
    if key not in _clients:
        library, refused = kafka(), list[Any]()
        settings = {**client_settings(brokers, options), "error_cb": partial(_note_refusal, refused), **(more or {})}
        made = load("confluent_kafka.admin", "kafka", "Kafka").AdminClient if kind == "admin" else library.Consumer
        try:
            _clients[key] = made(settings)
            _refusals[id(_clients[key])] = refused
        except library.KafkaException as error:
            raise SourceProblem(
                "TM420", "the settings of the connection to Kafka cannot be used", detail=reason(error)
            ) from None
    return _clients[key]


def forget_client(client: Any) -> None:
    """Make a new one next time."""
    for key in [key for key, kept in _clients.items() if kept is client]:
        _refusals.pop(id(_clients.pop(key)), None)


def list_topics(admin: Any, topic: str | None = None) -> Any:
    """What the brokers know of topics, or of one; where they refuse a kept client, that is the error, and soon."""
    library = kafka()
    try:
        return admin.list_topics(topic, timeout=_FIRST_S).topics
    except library.KafkaException:
        admin.poll(0)  # gives what was noted meanwhile
        refused = _refusals.get(id(admin), [])
        if refused:
            error = refused[-1]
            refused.clear()
            raise library.KafkaException(error) from None
    return admin.list_topics(topic, timeout=ANSWER_S - _FIRST_S).topics


def _note_refusal(refused: list[Any], error: Any) -> None:
    if error.code() in (error._AUTHENTICATION, error._SSL):
        refused.append(error)


def reason(error: Any) -> str:
    """What the client says, without its classes."""
    inner = error.args[0] if getattr(error, "args", None) else error
    return str(inner.str() if hasattr(inner, "str") else inner)


def unreachable(name: str, brokers: str, why: str) -> SourceProblem:
    """The error of brokers that do not answer."""
    return SourceProblem(
        "TM420",
        f'the brokers of "{name}" do not answer',
        detail=f"{brokers}: {why}",
        hint="check the address, and security, username and password",
    )
