"""The connector of each kind of source."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from tidemill.errors import SourceProblem
from tidemill.plan.sources import CONSTANTS, CONSTANTS_CONNECTOR, KINDS, SITE, SITE_CONNECTOR, SourceSpec
from tidemill.runtime.sources.connector import Connector


def open_connector(spec: SourceSpec, directory: str) -> Connector:
    """The connector of a source; `directory` is the source's own durable folder."""
    unregistered = {SITE: SITE_CONNECTOR, CONSTANTS: CONSTANTS_CONNECTOR}
    if spec.kind in unregistered:
        return _load(unregistered[spec.kind])(spec, directory)
    if spec.kind not in KINDS:
        known = ", ".join(kind.upper() for kind in KINDS)
        raise SourceProblem(
            "TM402", f'source "{spec.name}" has the unknown kind "{spec.kind}"', hint=f"a source is one of {known}"
        )
    return _load(KINDS[spec.kind].connector)(spec, directory)


def _load(connector: str) -> Callable[[SourceSpec, str], Connector]:
    # Imported here because most processes need one of them.
    module, _, name = connector.partition(":")
    return cast(Callable[[SourceSpec, str], Connector], getattr(import_module(module), name))
