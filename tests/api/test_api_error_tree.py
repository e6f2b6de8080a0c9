"""The tree of errors: every one of them is a name of `penstock`, with a sentence and an SQLSTATE."""

from __future__ import annotations

import re

import pytest

import penstock
from penstock.base import errors

ERRORS = [value for value in vars(errors).values() if isinstance(value, type)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_can_be_caught_by_its_name(error: type[penstock.PenstockError]) -> None:
    assert issubclass(error, penstock.PenstockError)
    assert error.__name__ in penstock.__all__
    assert getattr(penstock, error.__name__) is error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_says_what_it_means(error: type[penstock.PenstockError]) -> None:
    assert error.__doc__
    assert re.fullmatch("[0-9A-Z]{5}", error.sqlstate)
