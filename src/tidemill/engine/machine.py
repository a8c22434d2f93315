"""What a client may ask of the machine: its Java, its compiled kernels, whether a folder is the user's alone."""

from __future__ import annotations

from tidemill.runtime.kernels.warm import warm
from tidemill.runtime.private import is_private
from tidemill.runtime.session import LEAST_JAVA, java_home, java_version

__all__ = ["LEAST_JAVA", "is_private", "java_home", "java_version", "warm"]
