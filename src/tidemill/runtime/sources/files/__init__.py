"""A directory that keeps growing, as a source."""

from tidemill.runtime.sources.files.directory import Files

__all__ = ["Files"]
