"""docs/architecture/one_row.md says what happens: its values come out, its functions are passed, its names exist."""

from __future__ import annotations

import pytest

from tests.docs.one_row import BLOCK, NAMED, PAGE, PLAN, Step, resolve, steps_of, values, written


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text(encoding="utf-8")


def test_the_row_passes_every_function_with_the_values_of_the_page(page):
    """`python -m tests.docs.one_row` writes the values of today."""
    expected = {step: "" for step in steps_of(page) if step.is_mentioned}
    expected |= {Step.of(heading): text.rstrip("\n") for heading, text in BLOCK.findall(page)}
    assert len(expected) > 15 and values(page) == expected


def test_every_block_is_introduced(page):
    assert {step.name for step in steps_of(page)} - {PLAN} == set(NAMED.findall(page))


def test_a_changed_value_is_found(page):
    wrong = page.replace("3,88,3", "3,89,3", 1)
    assert written(wrong) != wrong


def test_a_function_that_is_gone_is_found():
    with pytest.raises(AttributeError):
        resolve("runtime.reader.reader.Reader.no_such_function")
