"""What clients use of the machine: its Java, its compiled kernels, and whether a folder is private to the user."""

from __future__ import annotations

from tidemill.runtime.kernels.compiling.warm import warm
from tidemill.runtime.private_folders import is_private
from tidemill.runtime.spark.session import LEAST_JAVA, java_home, java_version

__all__ = ["LEAST_JAVA", "is_private", "java_home", "java_version", "warm"]
