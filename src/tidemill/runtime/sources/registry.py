"""The connector of each kind of source."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from tidemill.errors import SourceProblem
from tidemill.plan.sources import KINDS, SourceSpec
from tidemill.runtime.sources.connector import Connector


def open_connector(spec: SourceSpec, directory: str) -> Connector:
    """The connector of a source; `directory` is the source's own durable folder."""
    if spec.kind not in KINDS:
        known = ", ".join(kind.upper() for kind in KINDS)
        raise SourceProblem(
            "TM402", f'source "{spec.name}" has the unknown kind "{spec.kind}"', hint=f"a source is one of {known}"
        )
    # Imported here because most processes need one of them.
    module, _, name = KINDS[spec.kind].connector.partition(":")
    return cast(Connector, getattr(import_module(module), name)(spec, directory))
