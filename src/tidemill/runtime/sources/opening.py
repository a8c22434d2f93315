"""The connector of each kind of source."""

from __future__ import annotations

from tidemill.errors import SourceProblem
from tidemill.plan.sources import SourceSpec
from tidemill.runtime.sources.connector import Connector


def open_connector(spec: SourceSpec, directory: str) -> Connector:
    """The connector of a source; `directory` is the source's own durable folder."""
    # Imported here because most processes need one of them.
    if spec.kind == "files":
        from tidemill.runtime.sources.files import Files
        return Files(spec, directory)
    if spec.kind == "port":
        from tidemill.runtime.sources.port import Port
        return Port(spec, directory)
    if spec.kind == "generate":
        from tidemill.runtime.sources.generate import Generate
        return Generate(spec, directory)
    raise SourceProblem("TM402", f'source "{spec.name}" has the unknown kind "{spec.kind}"',
                        hint="a source is FILES, PORT or GENERATE")
