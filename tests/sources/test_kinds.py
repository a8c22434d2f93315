"""The table of source kinds."""

from __future__ import annotations

from importlib import import_module

import pytest

from tidemill.errors import SourceProblem
from tidemill.plan.sources import KINDS, SourceSpec
from tidemill.runtime.sources.connector import Connector
from tidemill.runtime.sources.registry import open_connector


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_names_a_class_with_the_methods_of_a_connector(kind):
    module, _, name = KINDS[kind].connector.partition(":")
    methods = {method for method in vars(Connector) if not method.startswith("_")}
    assert methods and methods <= set(dir(getattr(import_module(module), name)))


def test_a_kind_that_is_not_in_the_table_is_refused():
    with pytest.raises(SourceProblem, match="unknown kind"):
        open_connector(SourceSpec("s", "pulsar", ()), "")
