"""Editors show a text for every attribute: that of the class's docstring."""

from typing import Any

import attrs
import pytest

from tests.models.attribute_docs import CLASSES, described_attributes, written_attributes


@pytest.mark.parametrize("model", CLASSES, ids=lambda model: str(model.__name__))
def test_the_docstring_under_an_attribute_is_that_of_its_class(model: type) -> None:
    # `python -m tests.models.attribute_docs` writes them.
    assert written_attributes(model) == described_attributes(model)


@pytest.mark.parametrize("model", CLASSES, ids=lambda model: str(model.__name__))
def test_every_attribute_is_described(model: type) -> None:
    names = {field.name for field in attrs.fields(model)}
    assert described_attributes(model).keys() == names
    assert all(text.endswith(".") for text in described_attributes(model).values())


@pytest.mark.heavy
def test_jedi_shows_the_words_of_a_row(jedi: Any) -> None:
    code = "from seorep_async.models import KeywordRanking\ndef f(row: KeywordRanking):\n    row."
    completions = {item.name: item.docstring() for item in jedi.Script(code).complete()}
    assert "Position of the keyword" in completions["engine_b_ranking"]
